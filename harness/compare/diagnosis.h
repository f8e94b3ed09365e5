// Which known mistake do the differing bits fit? Each hypothesis computes what it would have left
// behind and counts how many of the differing elements it explains exactly; one that explains all
// of them is named, the rest are named as not fitting, because an excluded mistake saves an
// engineer a night too.
#pragma once

#include <string>
#include <vector>

#include "harness/compare/bit_compare.h"
#include "harness/state/assembly.h"

namespace resumecheck {

struct Evidence {
  const AssembledState* want = nullptr;  // at the save (or the continuation at the same step)
  const AssembledState* got = nullptr;   // after the load (or the resumed run at that step)
  const AssembledState* one_step_before = nullptr;  // the saving run one step earlier; may be null
  const LogicalState* fresh = nullptr;  // the saving run before its first step; may be null
  std::string param_dtype;              // "bf16"
  std::int64_t saved_step = -1;         // steps before the save; -1: not known
  const AssembledState* one_step_after = nullptr;  // the saving run one step later; may be null
};

struct Fit {
  std::string
      name;  // "rounded through bf16", "cast to the parameters' dtype", "rounded through
             // fp16", "one step stale", "fresh start", "another rank's shard",
             // "requantised", "scaled by the number of ranks", "step restarted", "codebook
             // dropped", "codes one block off", "nibbles swapped", "scale of a neighbouring
             // block", "storage width flipped", "one step ahead", "master re-derived from
             // the parameter", "extra state empty", "extra state dropped", "amax history
             // reset", "amax history one row off", "scale_inv stale", "forward and backward
             // swapped", "rank 0's extra state", "amax not reduced", those of
             // run_state_hypotheses.cpp and placement_hypotheses.cpp, "norm of local shards"
  std::int64_t fits = 0;  // differing elements it explains
  std::int64_t of = 0;    // differing elements of all tensors; a differing value counts as one
  std::string detail;     // e.g. "rank 1 holds the shard of rank 2"
};

struct Diagnosis {
  std::vector<Fit> fits;  // explain every differing element of at least one tensor, best first
  std::vector<std::string> does_not_fit;  // hypotheses that could have applied and do not
};

Diagnosis diagnose(const Comparison& comparison, const Evidence& evidence);

// Ranks that should agree about a tensor (`key`) and do not: of an amax history "amax not reduced",
// where the maximum of what they hold is what the continuation holds; of the norm of the gradients
// "norm of local shards".
Diagnosis diagnose_disagreement(const TensorKey& key, const std::vector<RankState>& ranks,
                                const LogicalState& want);

}  // namespace resumecheck
