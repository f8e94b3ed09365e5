// The one safetensors reader and writer. The reader is strict, because a checkpoint that a lenient
// reader accepts and another one refuses is found out at the resume: each byte of the data belongs
// to exactly one tensor, each length follows from dtype and shape, and no name is there twice.
// Format: https://github.com/huggingface/safetensors (8 bytes little-endian header length, JSON
// header, data).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/state/file.h"
#include "harness/state/logical_state.h"

namespace resumecheck {

struct SafetensorsEntry {
  std::string name;
  Dtype dtype = Dtype::f32;
  Shape shape;
  std::uint64_t begin = 0;  // bytes from the start of the file
  std::uint64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
};

// The JSON header of a file of file_size bytes. Throws Error(harness) naming the tensor and place.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t file_size,
                                           const std::string& where);

class SafetensorsFile {
 public:
  // Reads and checks the header; throws Error(harness) naming file and place.
  explicit SafetensorsFile(const std::filesystem::path& file);

  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  Bytes read(const SafetensorsEntry& entry) const;

 private:
  FileReader reader_;
  SafetensorsHeader header_;
};

struct TensorToWrite {
  std::string name;
  Dtype dtype = Dtype::f32;
  Shape shape;
  std::span<const std::byte> bytes;
};

// Whole or not at all. Widest dtypes first, then by name, so that every tensor is aligned to its
// elements. Throws Error(harness): a name twice, a length that is not dtype x shape, no UTF-8, a
// full disk.
void write_safetensors(const std::filesystem::path& file, std::vector<TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata,
                       Durability durability = Durability::survives_power_loss);

}  // namespace resumecheck
