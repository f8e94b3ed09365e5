// Stochastic rounding against an obvious one, the two neighbours and the draw between them: away
// from zero once too often in a million survives every training run and every golden.
#include "kernels/float_bits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/float_samples.h"
#include "kernels/slow_twin.h"

namespace resumecheck::kernels {
namespace {

TEST(RoundToBf16By, GoesAwayFromZeroIffTheDrawIsLess) {
  for (const std::uint32_t kept : {0x3f800000U, 0xbf800000U, 0x00000000U, 0x80000000U, 0x7f7f0000U})
    for (const std::uint32_t cut : {0U, 1U, 0x7fffU, 0x8000U, 0xffffU})
      for (const std::uint32_t draw : {0U, 1U, 0x7fffU, 0x8000U, 0xfffeU, 0xffffU}) {
        const std::uint32_t want = (kept >> 16) + (draw < cut ? 1U : 0U);
        EXPECT_EQ(round_to_bf16_by(float_of(kept | cut), static_cast<std::uint16_t>(draw)), want)
            << std::hex << (kept | cut) << " by " << draw;
      }
}

TEST(RoundToBf16By, KeepsWhatBf16CanHoldAndMakesOneNaN) {
  for (const float value : all_bf16()) {
    const auto half = static_cast<std::uint16_t>(bits_of(value) >> 16);
    EXPECT_EQ(round_to_bf16_by(value, 0), std::isnan(value) ? 0x7fc0 : half);
  }
  EXPECT_EQ(round_to_bf16_by(float_of(0x7f800001U), 0xffff), 0x7fc0) << "not infinity";
}

TEST(RoundToBf16By, EqualsTheSlowTwin) {
  std::uint32_t draw = 1;
  for (const float value : every_4099th_float()) {
    draw = draw * 1664525U + 1013904223U;
    const auto bits = static_cast<std::uint16_t>(draw >> 16);
    ASSERT_EQ(widen_bf16(round_to_bf16_by(value, bits)) == slow_twin::stochastic_bf16(value, bits),
              !std::isnan(value));
  }
}

}  // namespace
}  // namespace resumecheck::kernels
