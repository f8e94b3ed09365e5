#include "harness/compare/element.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace resumecheck {
namespace {

// Sign, exponent and fraction bits of a binary format.
struct FloatFormat {
  int exponent_bits;
  int fraction_bits;
  bool has_infinity = true;  // e4m3 (the "fn" kind) has none, and one NaN of each sign
};

std::optional<FloatFormat> format_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f8_e4m3:
      return FloatFormat{4, 3, false};
    case Dtype::f8_e5m2:
      return FloatFormat{5, 2};
    case Dtype::f16:
      return FloatFormat{5, 10};
    case Dtype::bf16:
      return FloatFormat{8, 7};
    case Dtype::f32:
      return FloatFormat{8, 23};
    case Dtype::f64:
      return FloatFormat{11, 52};
    default:
      return std::nullopt;
  }
}

double decode(std::uint64_t bits, const FloatFormat& format) {
  const std::uint64_t fraction_mask = (1ULL << format.fraction_bits) - 1;
  const std::uint64_t top_exponent = (1ULL << format.exponent_bits) - 1;
  const std::uint64_t fraction = bits & fraction_mask;
  const std::uint64_t exponent = (bits >> format.fraction_bits) & top_exponent;
  const bool negative = (bits >> (format.fraction_bits + format.exponent_bits)) & 1;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  double magnitude = 0;
  if (format.has_infinity && exponent == top_exponent) {
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  } else if (!format.has_infinity && exponent == top_exponent && fraction == fraction_mask) {
    magnitude = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<double>(fraction), 1 - bias - format.fraction_bits);
  } else {
    magnitude = std::ldexp(static_cast<double>(fraction | (fraction_mask + 1)),
                           static_cast<int>(exponent) - bias - format.fraction_bits);
  }
  return negative ? -magnitude : magnitude;
}

// Round to nearest even into a narrower format with infinities.
std::uint64_t encode(double value, const FloatFormat& format) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const std::uint64_t infinity = ((1ULL << format.exponent_bits) - 1) << format.fraction_bits;
  const std::uint64_t sign = std::uint64_t{std::signbit(value)}
                             << (format.exponent_bits + format.fraction_bits);
  if (std::isnan(value)) return infinity | (1ULL << (format.fraction_bits - 1));
  if (std::isinf(value)) return sign | infinity;
  if (value == 0) return sign;
  int exponent = 0;
  std::frexp(value, &exponent);  // value = m * 2^exponent, m in [0.5, 1)
  const int least = 1 - bias;
  const int unit = std::max(exponent - 1, least) - format.fraction_bits;
  // An integer below 2^(fraction_bits + 1), exact but for the one rounding of nearbyint.
  const auto count =
      static_cast<std::uint64_t>(std::nearbyint(std::ldexp(std::fabs(value), -unit)));
  const auto steps = static_cast<std::uint64_t>(unit + format.fraction_bits - least);
  // Where rounding carries into the next power of two, adding the count carries the exponent too.
  const std::uint64_t magnitude = (steps << format.fraction_bits) + count;
  return sign | std::min(magnitude, infinity);
}

std::int64_t signed_value(std::uint64_t bits, std::size_t size) {
  const int unused = 64 - 8 * static_cast<int>(size);
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

bool is_signed_integer(Dtype dtype) {
  return dtype == Dtype::i8 || dtype == Dtype::i16 || dtype == Dtype::i32 || dtype == Dtype::i64;
}

std::string value_text(std::uint64_t bits, Dtype dtype) {
  if (is_float(dtype)) return fmt::format("{:.6g}", value_of(bits, dtype));
  if (dtype == Dtype::boolean && bits <= 1) return bits == 1 ? "true" : "false";
  if (is_signed_integer(dtype)) return std::to_string(signed_value(bits, size_of(dtype)));
  return std::to_string(bits);
}

}  // namespace

bool is_float(Dtype dtype) { return format_of(dtype).has_value(); }

std::uint64_t load_bits(const std::byte* element, Dtype dtype) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, element, size_of(dtype));
  return bits;
}

std::uint64_t ulps_between(std::uint64_t left, std::uint64_t right, Dtype dtype) {
  const int bits = 8 * static_cast<int>(size_of(dtype));
  const std::uint64_t sign = 1ULL << (bits - 1);
  const std::uint64_t all = sign | (sign - 1);
  const auto place = [&](std::uint64_t value) {
    return (value & sign) != 0 ? ~value & all : value | sign;
  };
  const std::uint64_t one = place(left);
  const std::uint64_t two = place(right);
  return one > two ? one - two : two - one;
}

double value_of(std::uint64_t bits, Dtype dtype) {
  if (dtype == Dtype::f32) return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  if (dtype == Dtype::f64) return std::bit_cast<double>(bits);
  if (dtype == Dtype::bf16) return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  if (const auto format = format_of(dtype)) return decode(bits, *format);
  if (is_signed_integer(dtype)) return static_cast<double>(signed_value(bits, size_of(dtype)));
  return static_cast<double>(bits);
}

std::optional<std::uint64_t> round_to(double value, Dtype dtype) {
  if (dtype == Dtype::f64) {
    return std::isnan(value) ? 0x7ff8000000000000ULL : std::bit_cast<std::uint64_t>(value);
  }
  if (dtype != Dtype::f32 && dtype != Dtype::bf16 && dtype != Dtype::f16) return std::nullopt;
  if (dtype == Dtype::f32 && !std::isnan(value)) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  }
  return encode(value, *format_of(dtype));
}

std::string element_text(std::uint64_t bits, Dtype dtype) {
  return fmt::format("0x{:0{}x}  {}", bits, 2 * size_of(dtype), value_text(bits, dtype));
}

}  // namespace resumecheck
