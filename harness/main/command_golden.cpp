// `resumecheck golden verify | update`: recomputes with the reference, on one rank, what goldens
// say. An update is a statement about arithmetic, so it takes a reason, says what it changes, and
// is refused while the kernels and the slow twin disagree.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "harness/adapters/reference/golden_check.h"
#include "harness/adapters/reference/reference.h"
#include "harness/main/commands.h"
#include "harness/report/committed_sources.h"
#include "harness/report/report.h"
#include "harness/scenario/case.h"
#include "harness/scenario/variants.h"
#include "harness/state/error.h"
#include "harness/state/json_text.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;

constexpr int kSame = 0, kDifferent = 1, kUnreadable = 3;

struct GoldenArguments {
  std::vector<std::string> patterns;
  std::string reason;
};

bool asks_for_golden(const Scenario& scenario) {
  for (const std::string& oracle : scenario.oracles) {
    if (oracle == "golden") return true;
  }
  return false;
}

// The scenarios that ask for the golden oracle, one for each golden: variants that are only saved
// otherwise share theirs.
std::vector<std::shared_ptr<const Scenario>> chosen(const std::vector<std::string>& patterns,
                                                    const fs::path& root) {
  std::vector<Case> cases;
  for (Case& c : expand(read_scenarios(root / "scenarios"), find_environments(root, {}))) {
    if (asks_for_golden(*c.scenario)) cases.push_back(std::move(c));
  }
  Selection selection;
  selection.patterns = patterns;
  std::vector<std::shared_ptr<const Scenario>> scenarios;
  std::set<std::string> names;
  for (const Case& c : select(cases, selection)) {
    if (names.insert(golden_name(*c.scenario)).second) scenarios.push_back(c.scenario);
  }
  return scenarios;
}

// Of the machine, what can change a bit. The rest of the provenance belongs to a run.
std::string what_decides_bits(const std::string& machine) {
  const nlohmann::json all = parse_json(machine, "this machine");
  nlohmann::json kept;
  for (const char* key : {"architecture", "cpu", "glibc", "harness"}) {
    if (all.contains(key)) kept[key] = all[key];
  }
  return dump(kept);
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

bool confirmed_on_gpu(const Golden& golden) {
  for (const GoldenConfirmation& one : golden.confirmed_on) {
    if (one.device == "cuda") return true;
  }
  return false;
}

std::string confirmations(const Golden& golden) {
  std::string text = "confirmed on";
  for (const GoldenConfirmation& one : golden.confirmed_on)
    text += " " + one.device + " " + one.isa;
  return text + (confirmed_on_gpu(golden) ? "" : "; not yet confirmed on a GPU");
}

void say(const std::string& text) {
  std::fputs((text + "\n").c_str(), stdout);
  std::fflush(stdout);
}

int verify_one(const Scenario& scenario, const fs::path& root, const std::string& machine) {
  const auto golden = read_golden(root, scenario);
  if (!golden) {
    throw Error(Error::Kind::harness, golden_file(root, golden_name(scenario)).string(),
                "no golden",
                "make it with `resumecheck golden update " + scenario.name + " --reason WHY`");
  }
  const GoldenCheck check = check_golden(*golden, scenario, host_arithmetics(), *twin_arithmetic());
  if (!check.same()) {
    say(explanation(check, *golden, machine));
    return kDifferent;
  }
  std::string by;
  for (const GoldenCheck::Computed& one : check.computed) by += (by.empty() ? "" : ", ") + one.by;
  say(fmt::format("same  {}   {}   computed by {}; {}", golden_name(scenario), golden->digest, by,
                  confirmations(*golden)));
  return kSame;
}

// Goldens that none of all the scenarios asks for: of a variant or a scenario that has gone, or of
// one that was renamed and then compared with nothing.
std::vector<std::string> unasked(const std::vector<std::shared_ptr<const Scenario>>& all,
                                 const fs::path& root) {
  std::set<std::string> asked;
  for (const auto& scenario : all) {
    asked.insert(golden_file(root, golden_name(*scenario)).lexically_normal().string());
  }
  std::vector<std::string> found;
  if (!fs::exists(root / "golden")) return found;
  for (const auto& entry : fs::recursive_directory_iterator(root / "golden")) {
    const std::string file = entry.path().lexically_normal().string();
    if (entry.path().extension() == ".json" && asked.count(file) == 0) found.push_back(file);
  }
  std::sort(found.begin(), found.end());
  return found;
}

// One that cannot be read does not keep the others from being looked at.
int verify(const GoldenArguments& arguments) {
  const fs::path root = project_root();
  const std::string machine = what_decides_bits(read_provenance(root).json);
  bool different = false, unreadable = false;
  const auto scenarios = chosen(arguments.patterns, root);
  for (const auto& scenario : scenarios) {
    try {
      different |= verify_one(*scenario, root, machine) == kDifferent;
    } catch (const Error& error) {
      if (error.kind() == Error::Kind::usage) throw;
      say(fmt::format("UNREADABLE  {}", error.what()));
      unreadable = true;
    }
  }
  if (arguments.patterns.empty()) {
    for (const std::string& file : unasked(scenarios, root)) {
      say(fmt::format("UNASKED  {}   no scenario asks for it: remove it, or name it again", file));
      different = true;
    }
  }
  return different ? kDifferent : unreadable ? kUnreadable : kSame;
}

Golden computed(const Scenario& scenario, const fs::path& root) {
  const auto builds = host_arithmetics();
  Golden golden = make_golden(root, scenario, reference_states(scenario.settings, builds.back()));
  const GoldenCheck check = check_golden(golden, scenario, builds, *twin_arithmetic());
  const Golden twin =
      make_golden(root, scenario, reference_states(scenario.settings, twin_arithmetic()));
  const auto found = differences(golden, twin);
  if (!check.same() || !found.empty()) {
    const std::string what = check.same() ? "the kernels and the slow twin disagree"
                                          : "instruction sets disagree: " + check.conclusion();
    throw Error(Error::Kind::harness, golden_name(scenario), what,
                "a golden is only made where all agree; find out which is wrong");
  }
  for (const GoldenCheck::Computed& one : check.computed) {
    golden.confirmed_on.push_back({"cpu", one.by, today(), ""});
  }
  return golden;
}

std::string what_changes(const std::optional<Golden>& old, const Golden& made) {
  if (!old) return "new";
  const auto found = differences(*old, made);
  if (found.empty()) return "the same bits";
  std::map<std::string, int> of_part;
  for (const GoldenDifference& one : found) ++of_part[one.key.part];
  std::string parts;
  for (const auto& [part, count] : of_part) {
    parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", count, part);
  }
  return fmt::format("{} tensors differ from the golden of {} ({}): {}; first is {} at step {}: {}",
                     found.size(), old->date, old->reason, parts, to_text(found[0].key),
                     found[0].step, found[0].what);
}

std::optional<Golden> old_golden(const fs::path& root, const Scenario& scenario) {
  try {
    return read_golden_of_any_settings(root, scenario);
  } catch (const Error& error) {
    say(fmt::format("UNREADABLE  {}", error.what()));
    return std::nullopt;
  }
}

void update_one(const Scenario& scenario, const fs::path& root, const std::string& machine,
                const std::string& reason) {
  const std::optional<Golden> old = old_golden(root, scenario);
  Golden made = computed(scenario, root);
  if (old && old->digest == made.digest && old->settings_digest == made.settings_digest) {
    say(fmt::format("unchanged  {}   {}", golden_name(scenario), made.digest));
    return;
  }
  made.machine = machine;
  made.date = today();
  made.reason = reason;
  write_golden(made);
  say(fmt::format("written  {}   {}   {}\n  {}; {}", golden_name(scenario), made.digest,
                  made.file.string(), what_changes(old, made), confirmations(made)));
}

int update(const GoldenArguments& arguments) {
  if (arguments.reason.find_first_not_of(" \t") == std::string::npos) {
    throw Error(Error::Kind::usage, "golden update", "needs a reason",
                "--reason 'what changed in the arithmetic, and why that is right'");
  }
  const fs::path root = project_root();
  require_committed_sources(root);
  const std::string machine = what_decides_bits(read_provenance(root).json);
  for (const auto& scenario : chosen(arguments.patterns, root)) {
    update_one(*scenario, root, machine, arguments.reason);
  }
  return kSame;
}

}  // namespace

void add_golden_command(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<GoldenArguments>();
  CLI::App* command = app.add_subcommand("golden", "Digests of what the reference computes");
  command->require_subcommand(1);
  CLI::App* verify_command = command->add_subcommand("verify", "recompute and compare");
  CLI::App* update_command =
      command->add_subcommand("update", "recompute and write what is new or changed");
  for (CLI::App* one : {verify_command, update_command}) {
    one->add_option("patterns", arguments->patterns, "scenarios, with * and ?");
  }
  update_command->add_option("--reason", arguments->reason, "why the golden changes; needed");
  verify_command->callback([arguments, &exit_code] { exit_code = verify(*arguments); });
  update_command->callback([arguments, &exit_code] { exit_code = update(*arguments); });
}

}  // namespace resumecheck
