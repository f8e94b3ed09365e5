// Which combinations hold, at a glance: a row for each variant of a scenario, a column for each
// environment (pair) or native adapter, a letter for each mesh pair. Where five meshes or more
// save, a grid for each of those: a row for each mesh that saves, a column for each that loads.
// Every case has exactly one letter, and whatever is unexpected is marked, so that a wall of dots
// can be trusted.
#pragma once

#include <string>
#include <vector>

#include "harness/compare/case_result.h"

namespace resumecheck {

// How a case ended, as one letter: see the legend in outcome_table().
char outcome_letter(const CaseResult& result);

struct OutcomeTableOptions {
  bool only_variants = false;  // leave out scenarios that have neither variants nor a grid
  bool colour = false;
};

// "" where nothing is to be shown. At most 100 columns wide: an environment more than fits begins a
// new band of rows.
std::string outcome_table(const std::vector<CaseResult>& results,
                          const OutcomeTableOptions& options);

}  // namespace resumecheck
