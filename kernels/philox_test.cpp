// The published vectors of Random123 (its kat_vectors file), and what makes the values of a grid
// safe to add in any order.
#include "kernels/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace resumecheck::kernels {
namespace {

using Words = std::array<std::uint32_t, 4>;

TEST(Philox, GivesThePublishedVectors) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(
      philox4x32_10({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
      (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(GridValue, ComesFromWordZeroOfTheDocumentedCounter) {
  const std::uint64_t seed = 0x0123456789abcdefU, index = 0x500000007U;
  const std::uint32_t word = philox4x32_10({4 + 256 * 3, 9, 7, 5}, {0x89abcdefU, 0x01234567U})[0];
  EXPECT_EQ(grid_value(seed, Stream::gradients, 3, 9, index, -12),
            std::ldexp(static_cast<float>(static_cast<int>(word >> 20) - 2048), -12));
}

TEST(RoundingBits, AreTheTopHalfOfTheirOwnStreamsWord) {
  const std::uint64_t seed = 0x0123456789abcdefU, index = 0x500000007U;
  const std::uint32_t word = philox4x32_10({5 + 256 * 3, 9, 7, 5}, {0x89abcdefU, 0x01234567U})[0];
  EXPECT_EQ(rounding_bits(seed, 3, 9, index), word >> 16);
}

TEST(AmaxValue, IsOnItsGridAboveZeroAndOfItsOwnStream) {
  const std::uint32_t word = philox4x32_10({7 + 256 * 3, 9, 64 + 2, 0}, {5, 0})[0];
  EXPECT_EQ(amax_value(5, 3, 9, 64 + 2), static_cast<float>((word >> 20) + 1) / 256);
  float smallest = 1, largest = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    smallest = std::min(smallest, amax_value(1, 0, 1, i));
    largest = std::max(largest, amax_value(1, 0, 1, i));
  }
  EXPECT_EQ(smallest, 1.0F / 256);
  EXPECT_EQ(largest, 16.0F);
}

TEST(GridValue, EachPartOfTheCounterMatters) {
  std::set<float> values;
  const auto add = [&](std::uint64_t seed, Stream stream, std::uint32_t ordinal, std::uint32_t step,
                       std::uint64_t index) {
    float value = 0;
    for (int k = 0; k < 4; ++k)  // four values of 12 bits, so that a chance collision is unlikely
      value = value * 4096 + grid_value(seed, stream, ordinal, step, index + 16 * k, 0) / 4096;
    values.insert(value);
  };
  add(1, Stream::init, 0, 0, 0);
  add(2, Stream::init, 0, 0, 0);
  add(std::uint64_t{1} << 40, Stream::init, 0, 0, 0);
  add(1, Stream::gradients, 0, 0, 0);
  add(1, Stream::init, 1, 0, 0);
  add(1, Stream::init, 0, 1, 0);
  add(1, Stream::init, 0, 0, 1);
  add(1, Stream::init, 0, 0, std::uint64_t{1} << 40);
  EXPECT_EQ(values.size(), 8U) << "two different counters gave the same values";
}

TEST(GridValue, SumsOfManyAreExactInAnyOrder) {
  float forwards = 0, backwards = 0;
  for (std::uint64_t i = 0; i < 4096; ++i) {
    const float value = grid_value(7, Stream::gradients, 0, 1, i, -12);
    EXPECT_EQ(value, std::ldexp(std::floor(std::ldexp(value, 12)), -12)) << "off the grid";
    EXPECT_LE(std::fabs(value), 0.5F);
    forwards += value;
    backwards += grid_value(7, Stream::gradients, 0, 1, 4095 - i, -12);
  }
  EXPECT_EQ(forwards, backwards);
}

}  // namespace
}  // namespace resumecheck::kernels
