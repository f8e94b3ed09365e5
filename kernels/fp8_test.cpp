// What stands between a tensor and its codes: the scale that multiplies it, rounded, and the amax
// that is taken of the tensor itself. The cast alone is in float8_test.cpp.
#include "kernels/fp8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "kernels/float_bits.h"

namespace resumecheck::kernels {
namespace {

std::vector<float> through_fp8(const std::vector<float>& values, float scale, Fp8Format format) {
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<std::uint8_t> codes(values.size());
  std::vector<float> result(values.size());
  quantise_fp8(values.data(), count, scale, format, codes.data(), best_isa());
  dequantise_fp8(codes.data(), count, format, result.data(), best_isa());
  return result;
}

TEST(QuantiseFp8, MultipliesByTheScaleAndDecodingDoesNotDivideByIt) {
  EXPECT_EQ(through_fp8({1.0F, -3.0F, 0.0F}, 16.0F, Fp8Format::e4m3),
            (std::vector<float>{16.0F, -48.0F, 0.0F}));
  EXPECT_EQ(through_fp8({1.0F, 1000.0F}, 100.0F, Fp8Format::e5m2),
            (std::vector<float>{96.0F, 57344.0F}))
      << "100 is between 96 and 112; 100000 saturates";
}

TEST(QuantiseFp8, RoundsTheProductBeforeItCasts) {
  // The exact product lies above the tie between 16 and 18, the rounded one on it, so even wins.
  const float value = 1.0F + std::ldexp(1.0F, -23), scale = 17.0F * (1.0F - std::ldexp(1.0F, -24));
  ASSERT_GT(static_cast<double>(value) * scale, 17.0);
  ASSERT_EQ(value * scale, 17.0F);
  EXPECT_EQ(through_fp8({value}, scale, Fp8Format::e4m3), std::vector<float>{16.0F});
}

TEST(QuantiseFp8, SaturatesWhatTheScaleMakesInfinite) {
  EXPECT_EQ(through_fp8({1e30F, -1e30F}, 1e30F, Fp8Format::e4m3),
            (std::vector<float>{448.0F, -448.0F}));
}

TEST(AmaxBits, SkipsNaNsAndKeepsInfinity) {
  const auto amax = [](const std::vector<float>& values) {
    return float_of(amax_bits(values.data(), static_cast<std::int64_t>(values.size()), best_isa()));
  };
  const float nan = float_of(0xffc00123U);
  EXPECT_EQ(amax({}), 0.0F);
  EXPECT_EQ(amax({nan, nan}), 0.0F);
  EXPECT_EQ(amax({nan, -3.0F, 2.0F}), 3.0F);
  EXPECT_EQ(amax({nan, -INFINITY, 2.0F}), INFINITY);
  EXPECT_EQ(amax({-0.0F}), 0.0F);
  std::vector<float> many(10000, 1.0F);
  many[9999] = -2.0F;
  EXPECT_EQ(amax(many), 2.0F) << "in the last, short tile";
}

TEST(Fp8, RefusesWhatMakesNoSense) {
  float value = 0;
  std::uint8_t code = 0;
  EXPECT_THROW(quantise_fp8(&value, -1, 1.0F, Fp8Format::e4m3, &code, Isa::baseline),
               std::invalid_argument);
  EXPECT_THROW(quantise_fp8(nullptr, 1, 1.0F, Fp8Format::e4m3, &code, Isa::baseline),
               std::invalid_argument);
  EXPECT_THROW(dequantise_fp8(&code, 1, Fp8Format::e4m3, nullptr, Isa::baseline),
               std::invalid_argument);
  EXPECT_NO_THROW(quantise_fp8(nullptr, 0, 1.0F, Fp8Format::e4m3, nullptr, Isa::baseline));
}

TEST(Fp8Max, IsTheLargestCodesValue) {
  EXPECT_EQ(through_fp8({INFINITY}, 1.0F, Fp8Format::e4m3)[0], fp8_max(Fp8Format::e4m3));
  EXPECT_EQ(through_fp8({INFINITY}, 1.0F, Fp8Format::e5m2)[0], fp8_max(Fp8Format::e5m2));
}

}  // namespace
}  // namespace resumecheck::kernels
