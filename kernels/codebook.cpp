// The "dynamic map" of 8-bit optimizers, as ATen computes it on a processor with fused
// multiply-add: without the fused form in linspace, 42 of the 256 signed entries differ in the last
// bit. So the fusion is written out and the machine has no say.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/adamw8bit.h"

namespace resumecheck::kernels {
namespace {

// Point i of `points` from 0.1 to 1, counted from the nearer end.
float linspace_point(int i, int points) {
  const float step = (1.0F - 0.1F) / static_cast<float>(points - 1);
  return i < points / 2 ? std::fmaf(step, static_cast<float>(i), 0.1F)
                        : std::fmaf(-step, static_cast<float>(points - 1 - i), 1.0F);
}

// Seven decades, each the means of neighbouring points; a decade has twice the means of the one
// below. The signed map spends half of them on negative values, and has no -1.
Codebook dynamic_map(bool is_signed) {
  constexpr float decades[7] = {1e-6F, 1e-5F, 1e-4F, 1e-3F, 1e-2F, 1e-1F, 1.0F};
  Codebook map{};
  std::size_t filled = 0;
  for (int decade = 0; decade < 7; ++decade) {
    const int means = 1 << (is_signed ? decade : decade + 1);
    for (int j = 0; j < means; ++j) {
      const float mean = (linspace_point(j, means + 1) + linspace_point(j + 1, means + 1)) / 2.0F;
      const float value = decades[decade] * mean;
      map[filled++] = value;
      if (is_signed) map[filled++] = -value;
    }
  }
  map[filled++] = 0.0F;
  map[filled++] = 1.0F;
  std::sort(map.begin(), map.end());
  return map;
}

}  // namespace

const Codebook& signed_codebook() {
  static const Codebook map = dynamic_map(true);
  return map;
}

const Codebook& unsigned_codebook() {
  static const Codebook map = dynamic_map(false);
  return map;
}

}  // namespace resumecheck::kernels
