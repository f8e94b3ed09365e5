// Does what this build computes still give the golden, and if not, whose fault is it? The slow twin
// and every instruction set are asked separately: a compiler flag or a machine breaks the kernels
// and leaves the twin; a changed formula or scenario moves all of them alike.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/adapters/reference/arithmetic.h"
#include "harness/phases/golden.h"

namespace resumecheck {

struct GoldenCheck {
  struct Computed {
    std::string by;  // "avx2", "slow twin"
    bool agrees = false;
    std::string digest;
  };
  std::vector<Computed> computed;             // builds first, then, where one differs, the twin
  std::vector<GoldenDifference> differences;  // of the first build that differs
  std::string differs_by;                     // which one that is
  bool same() const { return differences.empty(); }
  std::string conclusion() const;  // one line, "" where all is the same
};

GoldenCheck check_golden(const Golden& golden, const Scenario& scenario,
                         const std::vector<std::shared_ptr<const Arithmetic>>& builds,
                         const Arithmetic& twin);

// What a person reads of a golden that is not reached any more.
std::string explanation(const GoldenCheck& check, const Golden& golden,
                        const std::string& this_machine_json);

}  // namespace resumecheck
