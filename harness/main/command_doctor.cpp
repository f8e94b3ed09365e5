// `resumecheck doctor`: what this machine has, how many cases that enables, and what would enable
// the rest. It is the answer to "why was this skipped?" before anyone asks, so it counts the same
// reasons that a run would print.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/main/commands.h"
#include "harness/report/report.h"
#include "harness/scenario/case.h"
#include "harness/scenario/machine.h"
#include "harness/scenario/program_output.h"
#include "harness/state/error.h"

namespace resumecheck {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kExitCodeOfNothingRuns = 3;

std::string text_of(const Json& value, const std::string& absent = "not found") {
  return value.is_string() ? value.get<std::string>() : absent;
}

std::string joined(const Json& list) {
  std::string text;
  for (const Json& item : list) text += (text.empty() ? "" : ", ") + item.get<std::string>();
  return text.empty() ? "none" : text;
}

void say(std::string_view label, const std::string& text) { fmt::print("{:<14}{}\n", label, text); }

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

void tell_machine(const std::filesystem::path& root) {
  const Json machine = Json::parse(read_provenance(root).json);
  const Json& harness = machine.at("harness");
  say("resumecheck", fmt::format("{} at {}", text_of(harness.at("version")),
                                 text_of(harness.at("commit")).substr(0, 12)));
  say("compiler",
      fmt::format("{}, {}", text_of(harness.at("compiler")), text_of(harness.at("flags"))));
  say("cpu", fmt::format("{}, {} cores", text_of(machine.at("cpu").at("model"), "unknown model"),
                         machine.at("cpu").at("cores").get<int>()));
  say("vector", joined(machine.at("cpu").at("vector")));
  say("glibc", text_of(machine.at("glibc")));
  say("gpus", joined(machine.at("gpus")));
  say("driver", text_of(machine.at("driver")));
  say("cuda", text_of(machine.at("cuda")));
  const auto nccl = nccl_library();
  say("nccl",
      nccl ? fmt::format("{}, {}", text_of(machine.at("nccl"), "version unknown"), nccl->string())
           : "not found");
}

void tell_launcher() {
  const auto mpirun = find_on_path("mpirun");
  if (!mpirun) {
    say("mpi", "no mpirun on PATH: install Open MPI, or name a launcher with --launcher");
    return;
  }
  const ProgramOutput version = run_program({mpirun->string(), "--version"}, 10);
  const std::string told = first_line(version.text.empty() ? version.errors : version.text);
  say("mpi", fmt::format("{}: {}", mpirun->string(), told.empty() ? "gives no version" : told));
}

// The packages that adapters look for, with torch; a whole environment has dozens.
std::string versions(const Environment& environment) {
  std::vector<std::string> packages = {"torch"};
  for (const AdapterDeclaration& adapter : adapter_declarations()) {
    if (!adapter.package.empty()) packages.push_back(adapter.package);
  }
  std::string text;
  for (const std::string& package : packages) {
    const auto found = environment.packages.find(package);
    if (found == environment.packages.end()) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", package, found->second);
  }
  return text.empty() ? "no framework that an adapter knows" : text;
}

void tell_environments(const std::vector<Environment>& environments) {
  if (environments.empty()) say("environments", "tools/environments.toml names none");
  for (const Environment& environment : environments) {
    say("environment", fmt::format("{}: {}", environment.name,
                                   environment.python.empty() ? environment.missing_reason
                                                              : versions(environment)));
  }
}

void tell_adapters() {
  for (const AdapterDeclaration& adapter : adapter_declarations()) {
    std::string runs = "in every Python";
    if (adapter.native) runs = "native";
    if (!adapter.package.empty()) runs = "where " + adapter.package + " is installed";
    say("adapter", fmt::format("{}: {}; meshes of {}", adapter.name, runs,
                               fmt::join(adapter.mesh_dims, ", ")));
  }
}

// Returns whether anything can run.
bool tell_cases(const std::filesystem::path& root, const std::vector<Environment>& environments) {
  std::size_t runnable = 0;
  std::map<std::string, int> reasons;
  const std::vector<Case> cases = expand(read_scenarios(root / "scenarios"), environments);
  for (const Case& c : cases) {
    if (const auto reason = why_not_runnable(c)) {
      ++reasons[*reason];
    } else {
      ++runnable;
    }
  }
  say("cases", fmt::format("{} of {} can run here", runnable, cases.size()));
  for (const auto& [reason, count] : reasons) {
    say("", fmt::format("{} cannot: {}", count, reason));
  }
  return runnable > 0;
}

bool doctor(const std::vector<std::string>& own) {
  const std::filesystem::path root = project_root();
  tell_machine(root);
  tell_launcher();
  const auto environments = find_environments(root, own);
  tell_environments(environments);
  tell_adapters();
  return tell_cases(root, environments);
}

}  // namespace

void add_doctor_command(CLI::App& app, int& exit_code) {
  const auto own = std::make_shared<std::vector<std::string>>();
  CLI::App* command =
      app.add_subcommand("doctor", "What this machine has, and which cases that enables");
  command->add_option("--env", *own, "only this environment, as NAME or NAME=/path/to/python")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->callback([own, &exit_code] { exit_code = doctor(*own) ? 0 : kExitCodeOfNothingRuns; });
}

}  // namespace resumecheck
