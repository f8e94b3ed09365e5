// The draws are counter-based, so that a mismatch found on one machine is found again on another.
#include "kernels/twin_inputs.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "kernels/philox.h"

namespace resumecheck::kernels {

std::uint32_t bits_in(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float float_from(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

std::uint32_t Draw::word() {
  const std::uint32_t index = next_++;
  return philox4x32_10({index, 0, 0, 0}, {seed_, 0x7265u})[0];
}

float Draw::value() {
  const std::uint32_t bits = word();
  if (bits % 97 == 0) return 0.0F;
  const float mantissa = 1.0F + static_cast<float>(bits & 0xffffU) / 65536.0F;
  const int exponent = static_cast<int>((bits >> 16) % 30) - 24;
  return std::ldexp((bits >> 31) != 0 ? -mantissa : mantissa, exponent);
}

float Draw::edge() {
  static const std::uint32_t encodings[] = {
      0x00000000, 0x80000000,              // zeros
      0x00000001, 0x80000001, 0x007fffff,  // denormals
      0x00800000, 0x80800000, 0x00800001,  // smallest normals
      0x3f800000, 0xbf800000, 0x3f7fffff,  // around one
      0x7f7fffff, 0xff7fffff, 0x7e800000,  // largest
      0x7f800000, 0xff800000,              // infinities
      0x7f800001, 0xffabcdef,              // signalling NaNs
      0x7fc00000, 0xffc00000, 0x7fffffff,  // quiet NaNs
      0x2b8cbccb, 0x2b8cbccc, 0x2b8cbccd,  // around 1e-12, the smallest divisor
      0x1e3ce508, 0x9e3ce508, 0x60ad78ec,  // 1e-20, -1e-20, 1e20
  };
  return float_from(encodings[below(std::size(encodings))]);
}

namespace {

enum class Kind { ordinary, edges, tiny, zero };

float draw_value(Draw& draw, Kind kind) {
  switch (kind) {
    case Kind::zero:
      return 0.0F;
    case Kind::tiny:
      return draw.value() * 1e-38F;
    case Kind::edges:
      return draw.below(4) == 0 ? draw.edge() : draw.value();
    case Kind::ordinary:
      break;
  }
  return draw.value();
}

}  // namespace

std::vector<float> draw_values(Draw& draw, std::int64_t count, std::int64_t block, bool edges) {
  std::vector<float> values;
  Kind kind = Kind::ordinary;
  for (std::int64_t i = 0; i < count; ++i) {
    if (i % block == 0) {
      const std::size_t choice = draw.below(8);
      kind = choice == 0           ? Kind::zero
             : choice == 1         ? Kind::tiny
             : choice < 5 && edges ? Kind::edges
                                   : Kind::ordinary;
      values.push_back(choice == 7 ? -1e4F : draw_value(draw, kind));
    } else {
      values.push_back(draw_value(draw, kind));
    }
  }
  return values;
}

void Count::begin(std::string name) {
  ++outcome_.cases;
  case_ = std::move(name);
}

void Count::element(const char* what, std::size_t index, std::uint32_t want, std::uint32_t got) {
  ++outcome_.elements;
  if (want == got) return;
  if (outcome_.mismatches++ > 0) return;
  char line[160];
  std::snprintf(line, sizeof line, ": %s, element %zu: want 0x%08x, got 0x%08x", what, index, want,
                got);
  outcome_.first_mismatch = case_ + line;
}

void Count::floats(const char* what, const std::vector<float>& want,
                   const std::vector<float>& got) {
  if (want.size() != got.size()) element(what, want.size(), 0, 1);
  for (std::size_t i = 0; i < want.size() && i < got.size(); ++i)
    element(what, i, bits_in(want[i]), bits_in(got[i]));
}

void Count::codes(const char* what, const std::vector<std::uint8_t>& want,
                  const std::vector<std::uint8_t>& got) {
  if (want.size() != got.size()) element(what, want.size(), 0, 1);
  for (std::size_t i = 0; i < want.size() && i < got.size(); ++i) element(what, i, want[i], got[i]);
}

}  // namespace resumecheck::kernels
