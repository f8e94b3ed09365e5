// A case is scenario x variant x adapter x mesh pair (x environment pair). Its name is the filter,
// the JUnit name, the ctest name and the argument of the repro command:
// "adamw8bit/moments_survive_dp_shrink[torchao@torch-2.8,dp4->dp2]", and with a variant
// "low_bit/moments_survive[torchao@torch-2.8,adamw4bit,bf16,dp2->dp1]".
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/scenario/environment.h"
#include "harness/scenario/expression.h"
#include "harness/scenario/scenario.h"

namespace resumecheck {

struct Case {
  std::shared_ptr<const Scenario> scenario;
  std::string adapter;
  std::optional<Environment> save_env;  // nothing for native adapters
  std::optional<Environment> load_env;
  Mesh from;
  Mesh onto;
  std::string device = "cpu";

  std::string name() const;
  std::string gtest_suite() const;  // "adamw8bit"
  std::string gtest_name() const;   // "subject.rest" with - and : replaced by _
  std::string gtest_test() const;   // gtest_name() without "subject.": RegisterTest's second name
  std::string slug() const;         // [a-z0-9._-] plus 8 hex digits of the name's digest
  std::string save_key() const;     // cases with equal keys share one save run (scenario, variant,
                                    // adapter, save_env, from, device)
  Facts facts() const;
  std::vector<std::string> labels() const;  // the scenario's; nightly for quick where one of its
                                            // environments says so
  Settings settings() const;  // the scenario's, with the save format this adapter uses
  bool native() const;
};

std::vector<Case> expand(const std::vector<Scenario>& scenarios,
                         const std::vector<Environment>& environments);

// What the person asked for. A pattern with an exact name matches that name first; otherwise only *
// and ? are special. A pattern may leave out the brackets: it then matches every case of the
// scenarios it matches.
struct Selection {
  std::vector<std::string> patterns;  // empty: every case
  std::vector<std::string> labels;    // empty: any
  std::vector<std::string> adapters;  // empty: any
};
bool matches(const Case& c, const Selection& selection);
// Error(usage) where nothing matches ("no case matches 'x'; did you mean 'y'?").
std::vector<Case> select(const std::vector<Case>& cases, const Selection& selection);

// The same from the files below root/scenarios, where a pattern may also be the path of a scenario
// file outside them: "mine/train.py", "mine/train.py[torchao@torch-2.8,dp2->dp1]".
std::vector<Case> find_cases(const std::filesystem::path& root,
                             const std::vector<Environment>& environments,
                             const Selection& selection);

// Does the framework compile steps of it, which takes a C++ compiler and many seconds?
bool compiles(const Case& c);

// Nothing: this machine can run it. Otherwise the reason, as SKIP prints it. `launcher` is the
// program that starts ranks.
std::optional<std::string> why_not_runnable(const Case& c, const std::string& launcher = "mpirun");

// The known_broken entry whose expression holds for the case, if any.
const KnownBroken* known_broken(const Case& c);

}  // namespace resumecheck
