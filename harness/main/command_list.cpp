// `resumecheck list`: every case under the one name that all other commands take, and whether this
// machine can run it. What cannot run is shown with its reason, so that nobody takes a short list
// for a complete one. --json is what other tools ask, so that no rule is written twice.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/main/commands.h"
#include "harness/scenario/case.h"

namespace resumecheck {
namespace {

using Json = nlohmann::ordered_json;

struct ListArguments {
  std::vector<std::string> patterns, labels, adapters, environments;
  std::string device = "cpu";
  std::string launcher = "mpirun";
  bool json = false;
};

Json environment_json(const std::optional<Environment>& environment) {
  if (!environment) return nullptr;
  return {{"name", environment->name}, {"packages", Json(environment->packages)}};
}

Json known_broken_json(const Case& c) {
  const KnownBroken* known = known_broken(c);
  if (known == nullptr) return nullptr;
  return {{"origin", known->origin}, {"symptom", known->symptom}};
}

Json case_json(const Case& c, const std::optional<std::string>& reason) {
  return {{"case", c.name()},
          {"scenario", c.scenario->name},
          {"variant", c.scenario->variant},
          {"adapter", c.adapter},
          {"save_environment", environment_json(c.save_env)},
          {"load_environment", environment_json(c.load_env)},
          {"from", c.from.text()},
          {"onto", c.onto.text()},
          {"summary", c.scenario->summary},
          {"origin", c.scenario->origin},
          {"labels", c.labels()},
          {"known_broken", known_broken_json(c)},
          {"runnable", !reason.has_value()},
          {"reason", reason ? Json(*reason) : Json(nullptr)}};
}

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void print_json(const std::vector<Case>& cases, const std::string& launcher) {
  Json list = Json::array();
  for (const Case& c : cases) list.push_back(case_json(c, why_not_runnable(c, launcher)));
  print(list.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void print_table(const std::vector<Case>& cases, const std::string& launcher) {
  std::string text;
  std::string scenario;
  std::size_t runnable = 0;
  for (const Case& c : cases) {
    if (c.scenario->name != scenario) {
      scenario = c.scenario->name;
      text += fmt::format("# {}: {}\n", scenario, c.scenario->summary);
    }
    const auto reason = why_not_runnable(c, launcher);
    if (!reason) ++runnable;
    text += fmt::format("{:<5}{}{}\n", reason ? "skip" : "run", c.name(),
                        reason ? "   " + *reason : std::string());
  }
  text += fmt::format("{} case{}: {} can run here, {} cannot\n", cases.size(),
                      cases.size() == 1 ? "" : "s", runnable, cases.size() - runnable);
  print(text);
}

void list(const ListArguments& arguments) {
  const std::filesystem::path root = project_root();
  const auto environments = find_environments(root, arguments.environments);
  Selection selection;
  selection.patterns = arguments.patterns;
  selection.labels = arguments.labels;
  selection.adapters = arguments.adapters;
  std::vector<Case> cases = find_cases(root, environments, selection);
  for (Case& c : cases) c.device = arguments.device;
  // As `run` takes it, "srun -n {n}": the program is the first word.
  const std::string program = arguments.launcher.substr(0, arguments.launcher.find(' '));
  arguments.json ? print_json(cases, program) : print_table(cases, program);
}

}  // namespace

void add_list_command(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<ListArguments>();
  CLI::App* command = app.add_subcommand("list", "Every case, and whether this machine can run it");
  command->add_option("patterns", arguments->patterns,
                      "case names with * and ?, or paths of scenario files; none: all");
  command->add_flag("--json", arguments->json, "one JSON array for other programs");
  command->add_option("--label", arguments->labels, "only cases with this label");
  command->add_option("--adapter", arguments->adapters, "only cases of this adapter");
  command->add_option("--env", arguments->environments,
                      "only this environment, as NAME or NAME=/path/to/python");
  command->add_option("--launcher", arguments->launcher, "what `run` will be told")
      ->capture_default_str();
  command->add_option("--device", arguments->device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  for (const char* many : {"--label", "--adapter", "--env"}) {
    command->get_option(many)->allow_extra_args(false);  // one each, or it would take the patterns
  }
  command->callback([arguments, &exit_code] {
    list(*arguments);
    exit_code = 0;
  });
}

}  // namespace resumecheck
