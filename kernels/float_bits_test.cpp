// Conversions to fewer bits, each against an obvious one: the nearest of all values there are, or
// the two neighbours and the draw between them. A code that is wrong for one float in a million
// survives every training run and every golden.
#include "kernels/float_bits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/slow_twin.h"

namespace resumecheck::kernels {
namespace {

std::uint64_t fnv1a_64(const std::vector<std::uint8_t>& bytes) {
  std::uint64_t digest = 0xcbf29ce484222325U;
  for (const unsigned char byte : bytes) digest = (digest ^ byte) * 0x100000001b3U;
  return digest;
}

std::vector<float> all_bf16() {
  std::vector<float> values;
  for (std::uint32_t bits = 0; bits < 65536; ++bits)
    values.push_back(widen_bf16(static_cast<std::uint16_t>(bits)));
  return values;
}

std::vector<float> every_4099th_float() {
  std::vector<float> values;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 4099)
    values.push_back(float_of(static_cast<std::uint32_t>(bits)));
  return values;
}

TEST(E4m3Code, IsTheNearestForEveryBf16) {
  for (const float value : all_bf16())
    ASSERT_EQ(e4m3_code(value), slow_twin::float8_code(value))
        << "bits 0x" << std::hex << bits_of(value);
}

TEST(E4m3Code, IsTheNearestForASampleOfAllFloats) {
  const std::vector<float> values = every_4099th_float();
  for (std::size_t i = 0; i < values.size(); i += 8)
    ASSERT_EQ(e4m3_code(values[i]), slow_twin::float8_code(values[i]))
        << "bits 0x" << std::hex << bits_of(values[i]);
}

TEST(E4m3Code, IsTheNearestAroundEveryTie) {
  for (int code = 0; code < 0x7e; ++code) {
    const double low = slow_twin::float8_value(static_cast<std::uint8_t>(code));
    const double high = slow_twin::float8_value(static_cast<std::uint8_t>(code + 1));
    const std::uint32_t tie = bits_of(static_cast<float>((low + high) / 2));
    for (std::uint32_t bits = tie - 3; bits <= tie + 3; ++bits)
      for (const std::uint32_t sign : {0U, 0x80000000U})
        ASSERT_EQ(e4m3_code(float_of(bits | sign)), slow_twin::float8_code(float_of(bits | sign)))
            << "bits 0x" << std::hex << (bits | sign);
  }
}

TEST(E4m3Code, OfWhatHasNoValue) {
  EXPECT_EQ(e4m3_code(float_of(0x7fc00000U)), 0x7f);
  EXPECT_EQ(e4m3_code(float_of(0xffc00001U)), 0x7f) << "whichever sign the processor gives a NaN";
  EXPECT_EQ(e4m3_code(INFINITY), 0x7f);
  EXPECT_EQ(e4m3_code(-INFINITY), 0xff);
  EXPECT_EQ(e4m3_code(464.0F), 0x7e) << "a tie, and 448 is even";
  EXPECT_EQ(e4m3_code(std::nextafterf(464.0F, 1e3F)), 0x7f);
  EXPECT_EQ(e4m3_code(-0.0F), 0x80);
}

std::vector<std::uint8_t> codes_up_to_464(const std::vector<float>& values) {
  std::vector<std::uint8_t> codes;
  for (const float value : values)
    if (std::fabs(value) <= 464.0F) codes.push_back(e4m3_code(value));
  return codes;
}

// Origin: torch.Tensor.to(torch.float8_e4m3fn) of torch 2.8.0 and of 2.15.0, CPU capability AVX512,
// FNV-1a of the codes in the order of the bits. Beyond 464 the two differ (a NaN in 2.8.0, 448 in
// 2.15.0), which no block reaches: what is converted was divided by its largest magnitude / 448.
TEST(E4m3Code, EqualsWhatTorchMakes) {
  EXPECT_EQ(fnv1a_64(codes_up_to_464(all_bf16())), 0x2f6d0a49ddf9c5e3U);
  EXPECT_EQ(fnv1a_64(codes_up_to_464(every_4099th_float())), 0xc8f58d444ddbf548U);
}

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
