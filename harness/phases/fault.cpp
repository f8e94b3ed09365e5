#include "harness/phases/fault.h"

#include <fmt/format.h>

#include <charconv>

#include "harness/scenario/names.h"
#include "harness/state/error.h"

namespace resumecheck {
namespace {

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

// The step of "save_run step 2" and of "step 5".
std::optional<int> step_of(const std::string& at) {
  const std::size_t digits = at.find_first_of("0123456789");
  if (digits == std::string::npos) return std::nullopt;
  return std::stoi(at.substr(digits));
}

// A moment that never comes would leave the run whole, and the fault survived.
void check_moment(const FaultSpec& fault, const Settings& settings) {
  const std::optional<int> step = step_of(fault.at);
  if (!step) return;
  const int first = phase_of(fault.at) == "save_run" ? 0 : settings.save_after + 1;
  if (*step >= first && *step <= settings.train_until) return;
  throw Error(Error::Kind::usage, "fault " + fault.name, fmt::format("'{}' never comes", fault.at),
              fmt::format("the saving run has the steps 0 to {}, the resumed one {} to {}",
                          settings.train_until, settings.save_after + 1, settings.train_until));
}

void refuse_what_is_ignored(const FaultSpec& fault, const std::string& text) {
  const std::string where = "--defect " + text;
  if (!contains(rank_fault_names(), fault.name)) {
    if (!fault.rank && fault.at.empty()) return;
    throw Error(Error::Kind::usage, where, fault.name + " has no rank and no moment of its own",
                "write --defect " + fault.name);
  }
  if (!fault.at.empty() && !is_moment(fault.at)) {
    throw Error(Error::Kind::usage, where, fmt::format("'{}' is no moment", fault.at),
                "write save_run step 2, save, load, or step 5");
  }
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
    check_moment(fault, settings);
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
  refuse_what_is_ignored(fault, std::string(text));
  return fault;
}

}  // namespace resumecheck
