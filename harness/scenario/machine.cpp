#include "harness/scenario/machine.h"

#include <cctype>
#include <cstdlib>
#include <string>
#include <vector>

#include "harness/scenario/program_output.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;

// /dev/nvidia0, /dev/nvidia1, ...: also there in containers, where /proc shows every GPU of the
// host.
bool is_device(const std::string& name) {
  const std::string prefix = "nvidia";
  if (name.size() <= prefix.size() || name.compare(0, prefix.size(), prefix) != 0) return false;
  return name.find_first_not_of("0123456789", prefix.size()) == name.npos;
}

std::vector<fs::path> library_folders() {
  std::vector<fs::path> folders;
  if (const char* path = std::getenv("LD_LIBRARY_PATH")) {
    std::string rest = path;
    while (!rest.empty()) {
      const std::string folder = rest.substr(0, rest.find(':'));
      rest.erase(0, folder.size() + 1);
      if (!folder.empty()) folders.emplace_back(folder);
    }
  }
  for (const char* folder :
       {"/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
        "/usr/local/lib", "/usr/lib64", "/usr/lib"}) {
    folders.emplace_back(folder);
  }
  return folders;
}

}  // namespace

int cuda_devices() {
  int devices = 0;
  std::error_code failed;
  for (fs::directory_iterator entry("/dev", failed), end; !failed && entry != end;
       entry.increment(failed)) {
    if (is_device(entry->path().filename())) ++devices;
  }
  return devices;
}

std::optional<fs::path> nccl_library() {
  for (const fs::path& folder : library_folders()) {
    std::error_code ignored;
    if (fs::exists(folder / "libnccl.so.2", ignored)) return folder / "libnccl.so.2";
  }
  return std::nullopt;
}

std::optional<fs::path> cxx_compiler() {
  if (const char* named = std::getenv("CXX"); named != nullptr && *named != '\0') {
    if (auto found = find_on_path(named)) return found;
  }
  if (auto found = find_on_path("g++")) return found;
  return find_on_path("c++");
}

}  // namespace resumecheck
