#include "harness/phases/checkpoint_guard.h"

#include <fmt/format.h>

#include <fstream>

#include "harness/state/digest.h"
#include "harness/state/error.h"
#include "harness/state/file.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWindow = 4 << 20;  // bytes read at a time

// Of a file of any size, in bounded memory: the digest of its windows' digests.
std::string file_digest(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::string window(kWindow, '\0');
  std::string digests;
  while (in.read(window.data(), static_cast<std::streamsize>(window.size())), in.gcount() > 0) {
    digests += digest(std::string_view(window.data(), static_cast<std::size_t>(in.gcount())));
  }
  return digest(std::string_view(digests));
}

std::map<std::string, std::string> file_digests(const fs::path& folder) {
  std::map<std::string, std::string> found;
  if (!fs::is_directory(folder)) return found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    found[fs::relative(entry.path(), folder).string()] = file_digest(entry.path());
  }
  return found;
}

// A fault that finds nothing to damage would leave a green that tried nothing.
[[noreturn]] void nothing_to_damage(const fs::path& folder, const FaultSpec& fault) {
  throw Error(Error::Kind::usage, folder.string(), fault.name + ": holds no file",
              "use it with a save format that writes files");
}

fs::path largest_file(const fs::path& folder) {
  fs::path largest;
  if (!fs::is_directory(folder)) return largest;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    if (largest.empty() || fs::file_size(entry.path()) > fs::file_size(largest)) {
      largest = entry.path();
    }
  }
  return largest;
}

}  // namespace

CheckpointGuard::CheckpointGuard(fs::path folder)
    : folder_(std::move(folder)), digests_(file_digests(folder_)) {}

std::optional<std::string> CheckpointGuard::what_changed() const {
  const auto now = file_digests(folder_);
  for (const auto& [name, digest] : digests_) {
    const auto found = now.find(name);
    if (found == now.end()) return name + " was removed";
    if (found->second != digest) return name + " was changed";
  }
  for (const auto& [name, digest] : now) {
    if (digests_.count(name) == 0) return name + " was added";
  }
  return std::nullopt;
}

void CheckpointGuard::judge(CaseResult& result) const {
  const auto change = what_changed();
  if (!change || result.verdict == Verdict::fail) return;
  result.verdict = Verdict::fail;
  result.failed_at = "load";
  result.symptom = "the resume changed the checkpoint it loaded: " + *change;
}

void damage_checkpoint(const fs::path& folder, const std::vector<FaultSpec>& faults) {
  for (const FaultSpec& fault : faults) {
    const bool truncates = fault.name == "truncate_checkpoint";
    if (!truncates && fault.name != "remove_checkpoint") continue;
    const fs::path largest = largest_file(folder);
    if (largest.empty()) nothing_to_damage(folder, fault);
    if (truncates) {
      fs::resize_file(largest, fs::file_size(largest) / 2);
    } else {
      fs::remove_all(folder);
    }
  }
}

}  // namespace resumecheck
