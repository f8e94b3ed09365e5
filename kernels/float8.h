// Floats of 8 bits: the nearest code of an fp32, ties to even, and what a code stands for, on bits
// alone, so that no compiler or device has a choice. What differs between their users is only what
// becomes of a value beyond the largest, and each says it: an optimizer's moment becomes a NaN, a
// Transformer Engine tensor the largest code.
#pragma once

#include <cstdint>

#include "kernels/float_bits.h"

namespace resumecheck::kernels {

// 1, 4 and 3 bits, bias 7. There is no infinity; 0x7f and 0xff are NaN.
struct E4m3 {
  static constexpr int mantissa_bits = 3, bias = 7;
  static constexpr std::uint32_t largest = 0x7e, nan = 0x7f;
  static constexpr std::uint32_t first_special = 0x7f;  // from here on a code has no finite value
  static constexpr bool has_infinity = false;
};

// 1, 5 and 2 bits, bias 15. 0x7c is infinity, 0x7d to 0x7f are NaN, of which casts write 0x7e.
struct E5m2 {
  static constexpr int mantissa_bits = 2, bias = 15;
  static constexpr std::uint32_t largest = 0x7b, nan = 0x7e;
  static constexpr std::uint32_t first_special = 0x7c;
  static constexpr bool has_infinity = true;
};

// What a value gets that would round to more than the largest code; its sign is added.
struct Saturate {
  template <class Format>
  static constexpr std::uint32_t beyond = Format::largest;
};
struct NanBeyond {
  template <class Format>
  static constexpr std::uint32_t beyond = Format::nan;
};

// A NaN gets the format's own, without its sign.
template <class Format, class Overflow>
RESUMECHECK_HOST_DEVICE static inline std::uint8_t float8_code(float value) {
  constexpr int cut = 23 - Format::mantissa_bits;
  constexpr std::uint32_t rebias = static_cast<std::uint32_t>(127 - Format::bias) << 23;
  constexpr std::uint32_t smallest_normal = rebias + (1U << 23);
  // A float whose last bit is worth as much as the smallest denormal code: adding it rounds.
  constexpr std::uint32_t rounds_denormals =
      static_cast<std::uint32_t>(127 + 24 - Format::bias - Format::mantissa_bits) << 23;
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t half = (1U << (cut - 1)) - 1U;
  const std::uint32_t normal = (magnitude - rebias + half + ((magnitude >> cut) & 1U)) >> cut;
  const std::uint32_t denormal = bits_of(float_of(magnitude) + float_of(rounds_denormals)) & 0xffU;
  const std::uint32_t rounded = magnitude < smallest_normal ? denormal : normal;
  const std::uint32_t code =
      rounded > Format::largest ? Overflow::template beyond<Format> : rounded;
  const std::uint32_t signed_code = code | ((bits >> 24) & 0x80U);
  return static_cast<std::uint8_t>(is_nan_bits(bits) ? Format::nan : signed_code);
}

// Exact; every NaN is 0x7fc00000.
template <class Format>
RESUMECHECK_HOST_DEVICE static inline float float8_value(std::uint8_t code) {
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80U) << 24;
  const std::uint32_t magnitude = code & 0x7fU;
  const float normal = float_of((magnitude << (23 - Format::mantissa_bits)) +
                                (static_cast<std::uint32_t>(127 - Format::bias) << 23));
  // By multiplication of what is normal in fp32: denormal operands are slow.
  const float smallest =
      float_of(static_cast<std::uint32_t>(127 + 1 - Format::bias - Format::mantissa_bits) << 23);
  const float denormal = static_cast<float>(static_cast<std::int32_t>(magnitude)) * smallest;
  const float finite = magnitude < (1U << Format::mantissa_bits) ? denormal : normal;
  const std::uint32_t special = Format::has_infinity && magnitude == Format::first_special
                                    ? (0x7f800000U | sign)
                                    : 0x7fc00000U;
  return float_of(magnitude < Format::first_special ? (bits_of(finite) | sign) : special);
}

}  // namespace resumecheck::kernels
