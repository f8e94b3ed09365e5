// The "dynamic map" of 8-bit optimizers, as ATen computes it on a processor with fused
// multiply-add: without the fused form in linspace, 42 of the 256 signed entries differ in the last
// bit. So the fusion is written out and the machine has no say.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/adamw.h"

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
std::vector<float> dynamic_map(bool is_signed) {
  constexpr float decades[7] = {1e-6F, 1e-5F, 1e-4F, 1e-3F, 1e-2F, 1e-1F, 1.0F};
  std::vector<float> map;
  for (int decade = 0; decade < 7; ++decade) {
    const int means = 1 << (is_signed ? decade : decade + 1);
    for (int j = 0; j < means; ++j) {
      const float mean = (linspace_point(j, means + 1) + linspace_point(j + 1, means + 1)) / 2.0F;
      const float value = decades[decade] * mean;
      map.push_back(value);
      if (is_signed) map.push_back(-value);
    }
  }
  map.push_back(0.0F);
  map.push_back(1.0F);
  std::sort(map.begin(), map.end());
  return map;
}

}  // namespace

const std::vector<float>& standard_codebook(Storage storage, bool is_signed) {
  static const std::vector<float> maps8[2] = {dynamic_map(false), dynamic_map(true)};
  if (storage == Storage::map8) return maps8[is_signed ? 1 : 0];
  throw std::invalid_argument("kernels: no codebook yet");
}

}  // namespace resumecheck::kernels
