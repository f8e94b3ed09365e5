// Bit patterns of floats: conversions that are the same on every compiler and device, written on
// integers where the hardware leaves a choice. NaNs are stored as 0x7fc00000 (fp32) and 0x7fc0
// (bf16).
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define RESUMECHECK_HOST_DEVICE __host__ __device__
#else
#define RESUMECHECK_HOST_DEVICE
#endif

namespace resumecheck::kernels {

// static: a copy for each translation unit, so that the linker can never hand an AVX-512 body to
// the baseline.
RESUMECHECK_HOST_DEVICE static inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

RESUMECHECK_HOST_DEVICE static inline float float_of(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

RESUMECHECK_HOST_DEVICE static inline bool is_nan_bits(std::uint32_t bits) {
  return (bits & 0x7fffffffU) > 0x7f800000U;
}

RESUMECHECK_HOST_DEVICE static inline float widen_bf16(std::uint16_t half) {
  return float_of(static_cast<std::uint32_t>(half) << 16);
}

// Round to nearest even; NaN becomes 0x7fc0.
RESUMECHECK_HOST_DEVICE static inline std::uint16_t round_to_bf16(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  return static_cast<std::uint16_t>(is_nan_bits(bits) ? 0x7fc0U : rounded);
}

// Away from zero iff `random` is less than the 16 bits cut off; NaN becomes 0x7fc0.
RESUMECHECK_HOST_DEVICE static inline std::uint16_t round_to_bf16_by(float value,
                                                                     std::uint16_t random) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t away = random < (bits & 0xffffU) ? 1U : 0U;
  return static_cast<std::uint16_t>(is_nan_bits(bits) ? 0x7fc0U : (bits >> 16) + away);
}

}  // namespace resumecheck::kernels
