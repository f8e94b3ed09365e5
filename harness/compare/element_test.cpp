#include "harness/compare/element.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "kernels/float_bits.h"

namespace resumecheck {
namespace {

constexpr Dtype kFloats[] = {Dtype::f8_e4m3, Dtype::f8_e5m2, Dtype::f16,
                             Dtype::bf16,    Dtype::f32,     Dtype::f64};

std::uint64_t bits32(float value) { return std::bit_cast<std::uint32_t>(value); }

TEST(Element, EveryHalfDecodesAndRoundsBackToItself) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    for (std::uint64_t bits = 0; bits < 0x10000; ++bits) {
      const double value = value_of(bits, dtype);
      if (std::isnan(value)) continue;
      ASSERT_EQ(round_to(value, dtype), bits) << name_of(dtype) << " " << value;
    }
  }
}

TEST(Element, RoundsToBf16AsTheKernelsDo) {
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    ASSERT_EQ(round_to(value, Dtype::bf16), kernels::round_to_bf16(value)) << value;
  }
}

#ifdef __FLT16_MAX__  // the compiler has a 16-bit float to compare with
TEST(Element, EveryF16HasTheCompilersValue) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = std::bit_cast<_Float16>(static_cast<std::uint16_t>(bits));
    const auto want = static_cast<double>(half);
    const double got = value_of(bits, Dtype::f16);
    ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : want == got) << bits;
  }
}

TEST(Element, RoundsToF16AsTheCompilerDoes) {
  std::mt19937 random(2);
  for (int i = 0; i < 200'000; ++i) {
    const float any = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    const float value = std::ldexp(any, -(static_cast<int>(random() % 40)));
    if (std::isnan(value)) continue;
    const auto want = std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
    ASSERT_EQ(round_to(value, Dtype::f16), want) << value;
  }
}
#endif

TEST(Element, TiesGoToEvenAndOverflowGoesToInfinity) {
  EXPECT_EQ(round_to(1 + 0x1p-8, Dtype::bf16), 0x3f80U);
  EXPECT_EQ(round_to(1 + 0x3p-8, Dtype::bf16), 0x3f82U);
  EXPECT_EQ(round_to(65519, Dtype::f16), 0x7bffU);
  EXPECT_EQ(round_to(65520, Dtype::f16), 0x7c00U);
  EXPECT_EQ(round_to(-1e300, Dtype::f16), 0xfc00U);
  EXPECT_EQ(round_to(0x1p-25, Dtype::f16), 0U) << "half of the smallest, to even";
  EXPECT_EQ(round_to(0x1.8p-25, Dtype::f16), 1U);
  EXPECT_EQ(round_to(-0.0, Dtype::bf16), 0x8000U);
  EXPECT_EQ(round_to(NAN, Dtype::f32), 0x7fc00000U);
  EXPECT_EQ(round_to(-NAN, Dtype::f64), 0x7ff8000000000000U);
  EXPECT_FALSE(round_to(1, Dtype::u8).has_value());
}

TEST(Element, Fp8ValuesOfTheOcpTables) {
  EXPECT_EQ(value_of(0x7e, Dtype::f8_e4m3), 448);
  EXPECT_TRUE(std::isnan(value_of(0x7f, Dtype::f8_e4m3)));
  EXPECT_EQ(value_of(0x01, Dtype::f8_e4m3), 0x1p-9);
  EXPECT_EQ(value_of(0xb8, Dtype::f8_e4m3), -1);
  EXPECT_EQ(value_of(0x7b, Dtype::f8_e5m2), 57344);
  EXPECT_TRUE(std::isinf(value_of(0x7c, Dtype::f8_e5m2)));
  EXPECT_EQ(value_of(0x01, Dtype::f8_e5m2), 0x1p-16);
}

TEST(Element, UlpsCountRepresentableValuesAcrossZero) {
  EXPECT_EQ(ulps_between(bits32(1), bits32(std::nextafter(1.F, 2.F)), Dtype::f32), 1U);
  EXPECT_EQ(ulps_between(bits32(2), bits32(std::nextafter(2.F, 1.F)), Dtype::f32), 1U);
  EXPECT_EQ(ulps_between(bits32(0.F), bits32(-0.F), Dtype::f32), 1U)
      << "two different bit patterns are never zero apart";
  EXPECT_EQ(ulps_between(bits32(0x1p-149F), bits32(-0x1p-149F), Dtype::f32), 3U);
  EXPECT_EQ(ulps_between(0x3f80, 0x3f82, Dtype::bf16), 2U);
  EXPECT_EQ(ulps_between(0, UINT64_MAX, Dtype::f64), 0x8000000000000000U);
  EXPECT_EQ(ulps_between(0x8000000000000000U, UINT64_MAX, Dtype::f64), 0x7fffffffffffffffU);
  for (const Dtype dtype : kFloats) {
    EXPECT_EQ(ulps_between(5, 5, dtype), 0U) << name_of(dtype);
    EXPECT_EQ(ulps_between(9, 5, dtype), 4U) << name_of(dtype);
  }
}

TEST(Element, TextIsBitsAndValue) {
  EXPECT_EQ(element_text(0x3d1c4321, Dtype::f32), "0x3d1c4321  0.03815");
  EXPECT_EQ(element_text(0x3d1c0000, Dtype::f32), "0x3d1c0000  0.0380859");
  EXPECT_EQ(element_text(0x1f, Dtype::u8), "0x1f  31");
  EXPECT_EQ(element_text(0xff, Dtype::i8), "0xff  -1");
  EXPECT_EQ(element_text(0xffffffff, Dtype::i32), "0xffffffff  -1");
  EXPECT_EQ(element_text(1, Dtype::boolean), "0x01  true");
  EXPECT_EQ(element_text(2, Dtype::boolean), "0x02  2") << "no boolean has these bits: show them";
  EXPECT_EQ(element_text(0x7fc00000, Dtype::f32), "0x7fc00000  nan");
  EXPECT_EQ(element_text(0x80000000, Dtype::f32), "0x80000000  -0");
}

TEST(Element, BitsAreLittleEndian) {
  const std::byte bytes[] = {std::byte{0x21}, std::byte{0x43}, std::byte{0x1c}, std::byte{0x3d},
                             std::byte{0xff}};
  EXPECT_EQ(load_bits(bytes, Dtype::f32), 0x3d1c4321U);
  EXPECT_EQ(load_bits(bytes, Dtype::bf16), 0x4321U);
  EXPECT_EQ(load_bits(bytes, Dtype::u8), 0x21U);
}

}  // namespace
}  // namespace resumecheck
