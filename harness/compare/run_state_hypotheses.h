// Mistakes with what a run keeps beside parameters and moments: groups, schedule, loss scale, each
// sample's place in the data and its dropout generator.
#pragma once

#include <vector>

#include "harness/compare/suspect.h"

namespace resumecheck {

std::vector<Hypothesis> run_state_hypotheses();

// Ranks whose norms of the gradients disagree: whether each has its own shards' alone.
bool are_norms_of_shards(const std::vector<double>& of_ranks, double whole);

}  // namespace resumecheck
