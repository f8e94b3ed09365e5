// Files that appear whole or not at all, and errors that name them. The only place that writes
// files by rename.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace resumecheck {

// Temporary file beside the target, written, fsync'd, renamed; removed again on any failure.
// Throws Error(harness) with the path and the system's reason ("No space left on device").
void write_file(const std::filesystem::path& file, std::span<const std::byte> bytes);
void write_file(const std::filesystem::path& file, std::string_view text);

// The same for several pieces in a row, so that large tensors need not be joined in memory first.
// survives_power_loss adds fsync; without it the file still survives the death of the process,
// which is enough for progress marks that are written at every step.
enum class Durability { survives_power_loss, survives_the_process };
void write_file(const std::filesystem::path& file,
                std::span<const std::span<const std::byte>> pieces, Durability durability);
void write_file(const std::filesystem::path& file,
                std::initializer_list<std::span<const std::byte>> pieces, Durability durability);

std::string read_file(
    const std::filesystem::path& file);  // throws Error(harness): missing, a folder, unreadable

// Reads parts of a file by their place. Nothing is mapped: a file that shrinks or is replaced
// meanwhile is an Error, not a SIGBUS.
class FileReader {
 public:
  explicit FileReader(const std::filesystem::path& file);  // throws as read_file does
  ~FileReader();
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  std::uint64_t size() const { return size_; }  // when it was opened
  const std::filesystem::path& file() const { return file_; }
  // Fills all of `onto`, or throws Error(harness) naming the byte where the file ends.
  void read(std::uint64_t offset, std::span<std::byte> onto) const;

 private:
  std::filesystem::path file_;
  int descriptor_;
  std::uint64_t size_ = 0;
};

}  // namespace resumecheck
