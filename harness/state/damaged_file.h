// For the mutation test and the fuzzer: bytes as a file in memory, and the whole path that a rank's
// file takes. What may come out of any bytes is the contents or an Error; everything else escapes
// and fails.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>

#include "harness/state/assembly.h"
#include "harness/state/error.h"
#include "harness/state/safetensors.h"

namespace resumecheck {

class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("state_rank0.safetensors", 0)) {
    if (descriptor_ < 0) throw std::runtime_error("no file in memory");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void set(std::span<const std::byte> bytes) {
    const auto size = static_cast<ssize_t>(bytes.size());
    if (::ftruncate(descriptor_, 0) != 0 ||
        ::pwrite(descriptor_, bytes.data(), bytes.size(), 0) != size) {
      throw std::runtime_error("the file in memory cannot be written");
    }
  }
  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

// Whether the file was accepted. Throws std::logic_error where an answer breaks its own promise.
inline bool accepts(const std::filesystem::path& path) {
  try {
    const SafetensorsFile file(path);
    for (const SafetensorsEntry& entry : file.entries()) {
      if (file.read(entry).size() != element_count(entry.shape) * size_of(entry.dtype)) {
        throw std::logic_error(entry.name + " has other bytes than its shape");
      }
    }
    const Assembly assembly = assemble({read_rank_state(path)});
    for (const auto& [key, tensor] : assembly.assembled.state.tensors) {
      if (tensor.bytes.size() != element_count(tensor.shape) * size_of(tensor.dtype)) {
        throw std::logic_error(to_text(key) + " has other bytes than its shape");
      }
    }
    return true;
  } catch (const Error& error) {
    if (error.where().find(path.string()) == std::string::npos) {
      throw std::logic_error(std::string("an error that names no file: ") + error.what());
    }
    return false;
  }
}

}  // namespace resumecheck
