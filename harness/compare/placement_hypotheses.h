// Mistakes about which rank holds what: rows, shards, layers and experts that are all there, in
// each other's places. One that moves whole tensors explains all of one or nothing of it, else any
// two rows that are alike would be evidence.
#pragma once

#include <vector>

#include "harness/compare/suspect.h"

namespace resumecheck {

std::vector<Hypothesis> placement_hypotheses();

}  // namespace resumecheck
