// Which cases the person asked for. A selection that matches nothing is a mistake, never an empty
// success, and each pattern must match something by itself: one misspelt among many would otherwise
// drop its cases without a word.
#include <algorithm>

#include "harness/scenario/case.h"
#include "harness/scenario/glob.h"
#include "harness/scenario/names.h"
#include "harness/scenario/nearest_name.h"
#include "harness/scenario/one_line.h"
#include "harness/state/error.h"

namespace resumecheck {
namespace {

bool pattern_matches(const std::string& pattern, const Case& c) {
  if (glob_matches(pattern, c.name())) return true;
  return pattern.find('[') == pattern.npos && glob_matches(pattern, c.scenario->name);
}

bool any_of(const std::vector<std::string>& wanted, const std::vector<std::string>& held) {
  return wanted.empty() || std::any_of(wanted.begin(), wanted.end(), [&](const std::string& each) {
           return std::find(held.begin(), held.end(), each) != held.end();
         });
}

bool filters_match(const Case& c, const Selection& selection) {
  return any_of(selection.labels, c.labels()) && any_of(selection.adapters, {c.adapter});
}

void check_pattern(const std::string& pattern, const std::vector<Case>& cases) {
  std::vector<std::string> names;
  for (const Case& c : cases) {
    if (pattern_matches(pattern, c)) return;
    add_unique(names, pattern.find('[') == pattern.npos ? c.scenario->name : c.name());
  }
  throw Error(
      Error::Kind::usage, {}, "no case matches '" + one_line(pattern) + "'",
      nearest_name(pattern, names) ? did_you_mean(pattern, names) : "see `resumecheck list`");
}

void check_filters(const Selection& selection, const std::vector<Case>& cases) {
  std::vector<std::string> labels;
  for (const Case& c : cases) {
    for (const std::string& label : c.labels()) add_unique(labels, label);
  }
  for (const std::string& label : selection.labels) {
    if (!contains(labels, label)) {
      throw Error(Error::Kind::usage, "--label " + one_line(label), "no scenario has that label",
                  did_you_mean(label, labels));
    }
  }
  for (const std::string& adapter : selection.adapters) adapter_declaration(adapter);
}

// The file of a pattern that is a path, and what stands in brackets behind it.
std::optional<std::pair<std::filesystem::path, std::string>> as_path(const std::string& pattern) {
  const std::size_t bracket = pattern.find('[');
  const std::filesystem::path file = pattern.substr(0, bracket);
  const std::string ending = file.extension();
  if (ending != ".toml" && ending != ".py" && ending != ".cpp") return std::nullopt;
  return std::pair{file, bracket == pattern.npos ? std::string() : pattern.substr(bracket)};
}

// A case that is asked for twice runs once; two files whose cases have one name cannot run
// together, and leaving one out would be a green that says nothing of it.
void add_once(std::vector<Case>& cases, std::vector<Case> more) {
  for (Case& c : more) {
    const std::string name = c.name();
    const auto known = std::find_if(cases.begin(), cases.end(),
                                    [&](const Case& other) { return other.name() == name; });
    if (known == cases.end()) {
      cases.push_back(std::move(c));
    } else if (!std::filesystem::equivalent(known->scenario->file, c.scenario->file)) {
      throw Error(Error::Kind::usage, c.scenario->file.string(),
                  "has the name '" + c.scenario->name + "' of " + known->scenario->file.string(),
                  "rename one of the files, or run them one after the other");
    }
  }
}

// A name that no scenario has would take its cases out of the quick suite without a word.
void check_quick(const std::vector<Scenario>& scenarios,
                 const std::vector<Environment>& environments) {
  std::vector<std::string> names;
  for (const Scenario& scenario : scenarios) add_unique(names, scenario.name);
  for (const Environment& environment : environments) {
    for (const std::string& name : environment.quick.value_or(std::vector<std::string>())) {
      if (contains(names, name)) continue;
      throw Error(Error::Kind::usage, "tools/environments.toml",
                  "'quick' of " + environment.name + " lists '" + one_line(name) +
                      "', which is no scenario",
                  did_you_mean(name, names));
    }
  }
}

// An environment that no list names would leave its cases skipped for ever. Where the user chose
// the environments, those of the plan may be left out.
void check_plans(const std::vector<Scenario>& scenarios,
                 const std::vector<Environment>& environments) {
  Names names = {"", "*"};
  for (const Environment& environment : environments) {
    if (environment.named_by_user) return;
    names.push_back(environment.name);
  }
  for (const Scenario& scenario : scenarios) {
    for (const ResumePlan& plan : scenario.resumes) {
      for (const std::string& name : {plan.save_env, plan.load_env}) {
        if (contains(names, name)) continue;
        throw Error(Error::Kind::usage, scenario.file.string(),
                    "resumes under '" + one_line(name) +
                        "', and tools/environments.toml has no such environment",
                    did_you_mean(name, names));
      }
    }
  }
}

}  // namespace

bool matches(const Case& c, const Selection& selection) {
  if (!filters_match(c, selection)) return false;
  if (selection.patterns.empty()) return true;
  return std::any_of(selection.patterns.begin(), selection.patterns.end(),
                     [&](const std::string& pattern) { return pattern_matches(pattern, c); });
}

std::vector<Case> select(const std::vector<Case>& cases, const Selection& selection) {
  for (const std::string& pattern : selection.patterns) check_pattern(pattern, cases);
  check_filters(selection, cases);
  std::vector<Case> selected;
  for (const Case& c : cases) {
    if (matches(c, selection)) selected.push_back(c);
  }
  if (selected.empty()) {
    throw Error(Error::Kind::usage, {}, "no case matches all of what was asked for together",
                "see `resumecheck list`, or ask for less");
  }
  return selected;
}

std::vector<Case> find_cases(const std::filesystem::path& root,
                             const std::vector<Environment>& environments,
                             const Selection& selection) {
  std::vector<Case> cases;
  Selection named = selection;
  named.patterns.clear();
  for (const std::string& pattern : selection.patterns) {
    const auto path = as_path(pattern);
    if (!path) {
      named.patterns.push_back(pattern);
      continue;
    }
    const auto scenarios = read_scenario(path->first, root / "scenarios");
    check_plans(scenarios, environments);
    Selection own = selection;
    own.patterns = {scenarios.front().name + path->second};
    add_once(cases, select(expand(scenarios, environments), own));
  }
  if (selection.patterns.empty() || !named.patterns.empty()) {
    const std::vector<Scenario> scenarios = read_scenarios(root / "scenarios");
    check_quick(scenarios, environments);
    check_plans(scenarios, environments);
    add_once(cases, select(expand(scenarios, environments), named));
  }
  return cases;
}

}  // namespace resumecheck
