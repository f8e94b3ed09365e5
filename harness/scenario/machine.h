// What this machine has that a case may need, found by looking at files: no driver is loaded and no
// program is run, so that listing cases stays instant.
#pragma once

#include <filesystem>
#include <optional>

namespace resumecheck {

int cuda_devices();  // NVIDIA GPUs that the kernel driver shows
std::optional<std::filesystem::path> nccl_library();
std::optional<std::filesystem::path> cxx_compiler();  // $CXX, else g++ or c++ on PATH

}  // namespace resumecheck
