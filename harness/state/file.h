// Files that appear whole or not at all, and errors that name them. The only place that writes
// files by rename.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace resumecheck {

// Temporary file beside the target, written, fsync'd, renamed; removed again on any failure.
// Throws Error(harness) with the path and the system's reason ("No space left on device").
void write_file(const std::filesystem::path& file, std::span<const std::byte> bytes);
void write_file(const std::filesystem::path& file, std::string_view text);

std::string read_file(
    const std::filesystem::path& file);  // throws Error(harness): missing, a folder, unreadable

}  // namespace resumecheck
