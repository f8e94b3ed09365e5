// Codes, scales and codebook of a moment mean something only together. A checkpoint in which they
// do not fit each other (one of them is missing, too few scales, a code beyond the codebook) can
// still be read tensor by tensor, and would then be trained on as other numbers.
#pragma once

#include <string>
#include <vector>

#include "harness/state/logical_state.h"

namespace resumecheck {

struct MomentMisfit {
  TensorKey key;  // the tensor that does not fit
  std::string what, cure;
  bool operator==(const MomentMisfit&) const = default;
};

// In key order, the first of each moment; empty where all fit. For every "<moment>.codes",
// "<moment>.scale" and
// "<moment>.codebook": siblings that are missing; codes that are neither U8 nor F8_E4M3; scales
// that are not one for each block of the flattened parameter; a codebook that has neither 16 nor
// 256 ascending finite entries, or one beside codes that are floats; a code beyond its end.
std::vector<MomentMisfit> find_misfits(const LogicalState& state);

}  // namespace resumecheck
