// Mistakes with the FP8 state of a module. Its tensors explain each other: a history of zeros
// beside the right scale is another mistake than a module that was never loaded.
#pragma once

#include <vector>

#include "harness/compare/suspect.h"

namespace resumecheck {

std::vector<Hypothesis> fp8_hypotheses();

}  // namespace resumecheck
