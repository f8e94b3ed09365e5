// Whether this machine can run a case, and if not, the one reason that a person can act on. A case
// that cannot run is skipped by this reason; it never passes.
#include <cstdlib>
#include <filesystem>

#include "harness/scenario/capabilities.h"
#include "harness/scenario/case.h"
#include "harness/scenario/machine.h"
#include "harness/scenario/program_output.h"

namespace resumecheck {
namespace {

std::optional<std::string> why_missing(const std::string& requirement, const Case& c) {
  if (requirement == "cuda") {
    if (cuda_devices() > 0) return std::nullopt;
    return "needs cuda: this machine has no NVIDIA GPU";
  }
  if (requirement == "nccl") {
    if (nccl_library()) return std::nullopt;
    return "needs nccl: libnccl.so.2 was not found";
  }
  if (requirement == "gxx") {
    if (cxx_compiler()) return std::nullopt;
    return "needs gxx: no g++ on PATH: install g++ (apt install g++), or name a compiler in CXX";
  }
  if (evaluate(requirement, c.facts(), c.scenario->file.string())) return std::nullopt;
  return "needs " + requirement;
}

std::optional<std::string> why_no_environment(const std::optional<Environment>& environment) {
  if (!environment || !environment->python.empty()) return std::nullopt;
  return environment->missing_reason.empty() ? environment->name + " has no python"
                                             : environment->missing_reason;
}

}  // namespace

bool compiles(const Case& c) {
  return adapter_declaration(c.adapter).compiles && has_compiled_steps(c.scenario->settings);
}

std::optional<std::string> why_not_runnable(const Case& c, const std::string& launcher) {
  if (auto reason = why_no_environment(c.save_env)) return reason;
  if (auto reason = why_no_environment(c.load_env)) return reason;
  for (const std::string& requirement : c.scenario->requirements) {
    if (auto reason = why_missing(requirement, c)) return reason;
  }
  if (compiles(c)) {
    if (auto reason = why_missing("gxx", c)) return reason;
  }
  if (c.device == "cuda" && cuda_devices() == 0) return why_missing("cuda", c);
  if (!find_on_path(launcher)) {
    return "no " + launcher + " on PATH: install Open MPI, or name a launcher with --launcher";
  }
  return std::nullopt;
}

}  // namespace resumecheck
