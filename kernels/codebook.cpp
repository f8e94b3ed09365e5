// The "dynamic map" of optimizers with few bits, as ATen computes it on a processor with fused
// multiply-add: without the fused form in linspace, 42 of the 256 signed entries differ in the last
// bit. So the fusion is written out and the machine has no say.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "kernels/adamw.h"
#include "kernels/float_bits.h"

namespace resumecheck::kernels {
namespace {

// Point i of `points` from 0.1 to 1, counted from the nearer end.
float linspace_point(int i, int points) {
  const float step = (1.0F - 0.1F) / static_cast<float>(points - 1);
  return i < points / 2 ? std::fmaf(step, static_cast<float>(i), 0.1F)
                        : std::fmaf(-step, static_cast<float>(points - 1 - i), 1.0F);
}

// Decades up to one, each the means of neighbouring points; a decade has twice the means of the one
// below. The signed map spends half of them on negative values, and has no -1.
std::vector<float> dynamic_map(int decades, bool is_signed) {
  constexpr float factors[7] = {1e-6F, 1e-5F, 1e-4F, 1e-3F, 1e-2F, 1e-1F, 1.0F};
  std::vector<float> map;
  for (int decade = 0; decade < decades; ++decade) {
    const int means = 1 << (is_signed ? decade : decade + 1);
    for (int j = 0; j < means; ++j) {
      const float mean = (linspace_point(j, means + 1) + linspace_point(j + 1, means + 1)) / 2.0F;
      const float value = factors[7 - decades + decade] * mean;
      map.push_back(value);
      if (is_signed) map.push_back(-value);
    }
  }
  map.push_back(0.0F);
  map.push_back(1.0F);
  std::sort(map.begin(), map.end());
  return map;
}

// Sixteenths, without zero.
std::vector<float> linear_map() {
  std::vector<float> map(16);
  for (std::size_t i = 0; i < map.size(); ++i) map[i] = static_cast<float>(i + 1) / 16.0F;
  return map;
}

float e4m3_value(int code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return float_of(0x7fc00000U);
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (code & 128) != 0 ? -magnitude : magnitude;
}

std::vector<float> e4m3_values() {
  std::vector<float> values(256);
  for (int code = 0; code < 256; ++code) values[static_cast<std::size_t>(code)] = e4m3_value(code);
  return values;
}

}  // namespace

const std::vector<float>& standard_codebook(Storage storage, bool is_signed) {
  static const std::vector<float> signed8 = dynamic_map(7, true), unsigned8 = dynamic_map(7, false),
                                  signed4 = dynamic_map(3, true), unsigned4 = linear_map(),
                                  floats = e4m3_values();
  switch (storage) {
    case Storage::map8:
      return is_signed ? signed8 : unsigned8;
    case Storage::map4:
      return is_signed ? signed4 : unsigned4;
    case Storage::e4m3:
      return floats;
  }
  throw std::invalid_argument("kernels: unknown storage of a moment");
}

std::vector<std::uint8_t> pack_nibbles(const std::uint8_t* codes, std::int64_t count) {
  std::vector<std::uint8_t> packed(static_cast<std::size_t>((count + 1) / 2), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    if (codes[i] > 15) throw std::invalid_argument("kernels: a code of 4 bits is at most 15");
    packed[static_cast<std::size_t>(i / 2)] |=
        static_cast<std::uint8_t>(i % 2 == 0 ? codes[i] << 4 : codes[i]);
  }
  return packed;
}

std::vector<std::uint8_t> unpack_nibbles(const std::vector<std::uint8_t>& packed,
                                         std::int64_t count) {
  if (count < 0 || static_cast<std::int64_t>(packed.size()) != (count + 1) / 2)
    throw std::invalid_argument("kernels: " + std::to_string(packed.size()) +
                                " bytes do not hold " + std::to_string(count) + " codes of 4 bits");
  std::vector<std::uint8_t> codes;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint8_t pair = packed[static_cast<std::size_t>(i / 2)];
    codes.push_back(static_cast<std::uint8_t>(i % 2 == 0 ? pair >> 4 : pair & 15));
  }
  return codes;
}

}  // namespace resumecheck::kernels
