// Mistakes about which rank, row, layer or expert a part of a tensor belongs to. Each explains all
// of a tensor or nothing: a code that happens to be another row's is no evidence.
#pragma once

#include <vector>

#include "harness/compare/suspect.h"

namespace resumecheck {

std::vector<Hypothesis> placement_hypotheses();

}  // namespace resumecheck
