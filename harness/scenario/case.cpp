#include "harness/scenario/case.h"

#include <algorithm>

#include "harness/scenario/names.h"
#include "harness/state/digest.h"
#include "harness/state/error.h"

namespace resumecheck {
namespace {

// "torch-2.8", "torch-2.8>torch-2.15", or "" for native adapters.
std::string environment_text(const Case& c) {
  if (!c.save_env || !c.load_env) return {};
  if (c.save_env->name == c.load_env->name) return c.save_env->name;
  return c.save_env->name + ">" + c.load_env->name;
}

std::string brackets(const Case& c) {
  const std::string environment = environment_text(c);
  const std::string& variant = c.scenario->variant;
  return "[" + c.adapter + (environment.empty() ? "" : "@" + environment) + "," +
         (variant.empty() ? "" : variant + ",") + c.from.text() + "->" + c.onto.text() + "]";
}

struct EnvironmentPair {
  Environment save;
  Environment load;
};

const Environment* find_environment(const std::vector<Environment>& environments,
                                    const std::string& name) {
  for (const Environment& environment : environments) {
    if (environment.name == name) return &environment;
  }
  return nullptr;
}

bool restricted_by_user(const std::vector<Environment>& environments) {
  return std::any_of(environments.begin(), environments.end(),
                     [](const Environment& environment) { return environment.named_by_user; });
}

Environment without_package(Environment environment, const std::string& package) {
  environment.python.clear();
  environment.missing_reason = environment.name + " has no package " + package;
  return environment;
}

// A case that no environment can run is still a case: it is skipped with a reason, never lost.
std::vector<EnvironmentPair> nobody_has(const std::string& package,
                                        const std::vector<Environment>& environments) {
  std::vector<EnvironmentPair> pairs;
  if (restricted_by_user(environments)) {
    for (const Environment& environment : environments) {
      const Environment missing = without_package(environment, package);
      pairs.push_back({missing, missing});
    }
    return pairs;
  }
  Environment none;
  none.name = "none";
  none.missing_reason = "no environment in tools/environments.toml has " + package;
  return {{none, none}};
}

constexpr const char* every_environment = "*";

// What one side of a plan names: one environment, or with "*" each that has the package.
std::vector<Environment> side_of_plan(const std::string& name, const std::string& package,
                                      const std::vector<Environment>& environments) {
  if (name == every_environment) {
    std::vector<Environment> all;
    for (const Environment& environment : environments) {
      if (environment.may_have(package)) all.push_back(environment);
    }
    if (!all.empty()) return all;
    for (const EnvironmentPair& pair : nobody_has(package, environments)) all.push_back(pair.save);
    return all;
  }
  if (const Environment* found = find_environment(environments, name)) {
    return {found->may_have(package) ? *found : without_package(*found, package)};
  }
  if (restricted_by_user(environments)) return {};
  Environment unknown;
  unknown.name = name;
  unknown.missing_reason = "tools/environments.toml has no environment " + name;
  return {unknown};
}

std::vector<EnvironmentPair> named_by_plan(const ResumePlan& plan, const std::string& package,
                                           const std::vector<Environment>& environments) {
  const auto saves =
      side_of_plan(plan.save_env.empty() ? plan.load_env : plan.save_env, package, environments);
  const auto loads =
      side_of_plan(plan.load_env.empty() ? plan.save_env : plan.load_env, package, environments);
  std::vector<EnvironmentPair> pairs;
  for (const Environment& save : saves) {
    for (const Environment& load : loads) pairs.push_back({save, load});
  }
  return pairs;
}

std::vector<EnvironmentPair> environment_pairs(const AdapterDeclaration& adapter,
                                               const ResumePlan& plan,
                                               const std::vector<Environment>& environments) {
  if (!plan.save_env.empty() || !plan.load_env.empty()) {
    return named_by_plan(plan, adapter.package, environments);
  }
  if (adapter.package.empty()) {
    const Environment system = system_environment();
    return {{system, system}};
  }
  std::vector<EnvironmentPair> pairs;
  for (const Environment& environment : environments) {
    if (environment.may_have(adapter.package)) pairs.push_back({environment, environment});
  }
  return pairs.empty() ? nobody_has(adapter.package, environments) : pairs;
}

void check_linked(const Scenario& scenario) {
  if (scenario.carrier != "cpp") return;
  throw Error(Error::Kind::usage, scenario.file.string(),
              "the code of this scenario is linked into no program",
              "C++ scenarios are not supported yet: state it in a .toml or a .py");
}

// Adds the plan's cases under one environment pair (nothing for native adapters).
void add_cases(const std::shared_ptr<const Scenario>& scenario, const std::string& adapter,
               const ResumePlan& plan, const EnvironmentPair* pair, std::vector<Case>& cases) {
  for (const Mesh& onto : plan.onto) {
    Case c;
    c.scenario = scenario;
    c.adapter = adapter;
    if (pair != nullptr) {
      c.save_env = pair->save;
      c.load_env = pair->load;
    }
    c.from = plan.from;
    c.onto = onto;
    const std::string name = c.name();
    const bool known = std::any_of(cases.begin(), cases.end(), [&](const Case& other) {
      return other.scenario == scenario && other.name() == name;
    });
    if (!known) cases.push_back(std::move(c));
  }
}

// "" where the adapter has no such option.
std::string wrap_of(const Case& c) {
  const auto options = c.scenario->adapter_options.find(c.adapter);
  if (options != c.scenario->adapter_options.end()) {
    const auto chosen = options->second.find("wrap");
    if (chosen != options->second.end()) return to_text(chosen->second);
  }
  const auto& declared = adapter_declaration(c.adapter).options;
  const auto known = declared.find("wrap");
  return known == declared.end() || known->second.empty() ? std::string() : known->second.front();
}

}  // namespace

std::string Case::name() const { return scenario->name + brackets(*this); }

std::string Case::gtest_suite() const { return scenario->name.substr(0, scenario->name.find('/')); }

std::string Case::gtest_test() const {
  const std::size_t slash = scenario->name.find('/');
  std::string test =
      (slash == std::string::npos ? std::string() : scenario->name.substr(slash + 1)) +
      brackets(*this);
  for (char& c : test) {
    if (c == '-' || c == ':') c = '_';
  }
  return test;
}

std::string Case::gtest_name() const {
  std::string suite = gtest_suite();
  for (char& c : suite) {
    if (c == '-' || c == ':') c = '_';
  }
  return suite + "." + gtest_test();
}

std::string Case::slug() const {
  constexpr std::size_t longest = 100;  // a file system takes 255 bytes in all
  const std::string full = name();
  std::string slug;
  for (const char raw : full) {
    const char c = raw >= 'A' && raw <= 'Z' ? static_cast<char>(raw - 'A' + 'a') : raw;
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_';
    if (plain) {
      slug += c;
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return slug.substr(0, longest) + "-" + digest(std::string_view(full)).substr(0, 8);
}

std::string Case::save_key() const {
  return scenario->name + "[" + adapter + (save_env ? "@" + save_env->name : "") + "," +
         scenario->variant + "," + from.text() + "," + device + "]";
}

Facts Case::facts() const {
  Facts facts;
  const Settings used = settings();
  facts.words = {{"adapter", adapter},
                 {"device", device},
                 {"from", from.text()},
                 {"onto", onto.text()},
                 {"optimizer", used.optimizer.name},
                 {"param_dtype", used.param_dtype},
                 {"save_format", used.save_format},
                 {"profile", used.optimizer.profile},
                 {"wrap", wrap_of(*this)}};
  const auto add = [&](const std::string& side, const std::optional<Environment>& environment) {
    if (!environment) return;
    for (const auto& [package, version] : environment->packages) {
      facts.versions[side + "." + package] = version;
    }
  };
  add("save", save_env);
  add("load", load_env);
  return facts;
}

std::vector<std::string> Case::labels() const {
  std::vector<std::string> labels = scenario->labels;
  const auto slow_under = [&](const std::optional<Environment>& environment) {
    return environment && environment->quick && !contains(*environment->quick, scenario->name);
  };
  if (!slow_under(save_env) && !slow_under(load_env)) return labels;
  if (std::erase(labels, "quick") > 0 && !contains(labels, "nightly")) labels.push_back("nightly");
  return labels;
}

Settings Case::settings() const {
  Settings settings = scenario->settings;
  if (settings.save_format.empty()) {
    settings.save_format = adapter_declaration(adapter).save_formats.front();
  }
  return settings;
}

bool Case::native() const { return adapter_declaration(adapter).native; }

const KnownBroken* known_broken(const Case& c) {
  const Facts facts = c.facts();
  for (const KnownBroken& known : c.scenario->known_broken) {
    if (evaluate(known.when, facts, known.where)) return &known;
  }
  return nullptr;
}

std::vector<Case> expand(const std::vector<Scenario>& scenarios,
                         const std::vector<Environment>& environments) {
  std::vector<Case> cases;
  for (const Scenario& each : scenarios) {
    check_linked(each);
    const auto scenario = std::make_shared<const Scenario>(each);
    for (const std::string& name : scenario->adapters) {
      const AdapterDeclaration& adapter = adapter_declaration(name);
      for (const ResumePlan& plan : scenario->resumes) {
        if (adapter.native) {
          add_cases(scenario, name, plan, nullptr, cases);
          continue;
        }
        for (const EnvironmentPair& pair : environment_pairs(adapter, plan, environments)) {
          add_cases(scenario, name, plan, &pair, cases);
        }
      }
    }
  }
  return cases;
}

}  // namespace resumecheck
