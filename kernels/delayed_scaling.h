// Transformer Engine's delayed scaling: the amax history of a tensor becomes the scale that the
// next step quantises by. Its two implementations differ where it is easy to overlook (a column
// that saw only zeros, a NaN, the number of roundings), and both are in use, so both are here.
#pragma once

#include <cstdint>

#include "kernels/fp8.h"

namespace resumecheck::kernels {

struct DelayedScaling {
  bool fused = true;          // false: as with NVTE_UNFUSED_FP8_UPDATE=1
  bool most_recent = false;   // else the maximum of the history
  std::int64_t history = 16;  // rows, at least 1
  int margin = 0;             // the scale is 2^-margin of what would fit; -100 to 100
};

// One direction (forward or backward) of one module; all its columns have one format.
struct ScalingState {
  std::int64_t columns = 0;
  float* history = nullptr;    // [recipe.history][columns]; row 0 is the running amax, row 1 the
                               // oldest, the last row the newest
  float* scale = nullptr;      // [columns]
  float* scale_inv = nullptr;  // [columns], or null: f(1 / scale) of the new scale
};

// Once a step. reduced: [columns], the maximum of row 0 over all ranks (row 0 itself where nothing
// is reduced). Throws std::invalid_argument on a recipe without rows or with another margin.
//
// fused, for each column: last = reduced != 0 ? reduced : row 0. Where last is 0 nothing rolls and
// the scale stays; else the rows move up by one, last becomes the newest and row 0 is 0.
// amax: last, or the maximum of the rows and last, NaNs ignored.
// scale = (fp8_max * 2^-margin) / amax.
//
// unfused: row 0 = reduced; amax: row 0, or the maximum of all rows, where a NaN wins; the rows
// move up by one, row 0 becomes the newest and is 0 then. scale = f(f(1 / amax) * fp8_max) /
// 2^margin.
//
// In both the scale stays unless amax is finite and above 0, and an infinite scale becomes the
// largest float.
void update_delayed_scaling(const DelayedScaling& recipe, Fp8Format format, const float* reduced,
                            const ScalingState& state, Isa isa);

}  // namespace resumecheck::kernels
