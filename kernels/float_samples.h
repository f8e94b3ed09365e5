// Floats that a cast is tried on: all there are of 16 bits, and of 32 bits every 4099th, a prime,
// so that each exponent is met with many mantissas.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/float_bits.h"

namespace resumecheck::kernels {

inline std::vector<float> all_bf16() {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < 65536; ++bits)
    values.push_back(widen_bf16(static_cast<std::uint16_t>(bits)));
  return values;
}

inline std::vector<float> every_4099th_float() {
  std::vector<float> values;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 4099)
    values.push_back(float_of(static_cast<std::uint32_t>(bits)));
  return values;
}

}  // namespace resumecheck::kernels
