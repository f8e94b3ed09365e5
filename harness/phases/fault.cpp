#include "harness/phases/fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "harness/state/error.h"

namespace resumecheck {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "save" and "save_run ..." happen while the saving run is alive; "load" and "step k" in the other.
std::string phase_of(const std::string& at) {
  return at.rfind("save", 0) == 0 ? "save_run" : "resume_run";
}

FaultSpec with_defaults(FaultSpec fault, const Settings& settings) {
  if (!fault.at.empty()) return fault;
  fault.at =
      fault.name == "raise_exception" ? "load" : fmt::format("step {}", settings.save_after + 1);
  return fault;
}

}  // namespace

const std::vector<std::string>& checkpoint_fault_names() {
  static const std::vector<std::string> names = {"truncate_checkpoint", "remove_checkpoint"};
  return names;
}

std::vector<FaultSpec> faults_of_phase(const std::vector<FaultSpec>& faults, std::string_view phase,
                                       const Mesh& mesh, const Settings& settings) {
  std::vector<FaultSpec> told;
  for (const FaultSpec& given : faults) {
    if (contains(checkpoint_fault_names(), given.name)) continue;
    if (!contains(rank_fault_names(), given.name)) {
      told.push_back(given);
      continue;
    }
    FaultSpec fault = with_defaults(given, settings);
    if (phase_of(fault.at) != phase) continue;
    fault.rank = fault.rank.value_or(mesh.world() - 1);
    if (*fault.rank < 0 || *fault.rank >= mesh.world()) {
      throw Error(
          Error::Kind::usage, "fault " + fault.name,
          fmt::format("rank {} is not one of the {} of {}", *fault.rank, mesh.world(), mesh.text()),
          "name a rank that every mesh of the scenario has, or none for the last");
    }
    told.push_back(fault);
  }
  return told;
}

FaultSpec parse_fault(std::string_view text) {
  FaultSpec fault;
  const std::size_t first = text.find(':');
  fault.name = text.substr(0, first);
  if (first == std::string_view::npos) return fault;
  const std::size_t second = text.find(':', first + 1);
  const std::string_view rank = text.substr(first + 1, second - first - 1);
  if (!rank.empty()) {
    int number = 0;
    const auto [end, problem] = std::from_chars(rank.data(), rank.data() + rank.size(), number);
    if (problem != std::errc() || end != rank.data() + rank.size()) {
      throw Error(Error::Kind::usage, "--defect " + std::string(text),
                  fmt::format("'{}' is no rank", rank), "write NAME, NAME:RANK or NAME:RANK:WHEN");
    }
    fault.rank = number;
  }
  if (second != std::string_view::npos) fault.at = text.substr(second + 1);
  return fault;
}

}  // namespace resumecheck
