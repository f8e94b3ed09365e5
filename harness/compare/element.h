// One element of a tensor as a number and as text, by its bits. Conversions are done on integers or
// in an exactly stated type, so that what is predicted and what is shown are the same on every
// machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "harness/state/dtype.h"

namespace resumecheck {

bool is_float(Dtype dtype);

// Little-endian bits of one element, in the low bytes.
std::uint64_t load_bits(const std::byte* element, Dtype dtype);

// Distance between two floats of a dtype along the line of its representable values; -0 and +0 are
// one apart, NaNs lie beyond the infinities.
std::uint64_t ulps_between(std::uint64_t left, std::uint64_t right, Dtype dtype);

// The value that the bits stand for; exact for every dtype but 64-bit integers.
double value_of(std::uint64_t bits, Dtype dtype);

// Bits of the value in f32, f16, bf16 or f64, to nearest even; NaNs become the canonical one.
// Nothing for other dtypes.
std::optional<std::uint64_t> round_to(double value, Dtype dtype);

// "0x3d1c4321  0.03815", "0x1f  31", "0x01  true"
std::string element_text(std::uint64_t bits, Dtype dtype);

}  // namespace resumecheck
