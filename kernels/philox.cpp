// Philox4x32 with ten rounds, from Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"
// (SC 2011). It must equal the published vectors: a generator that is merely random would give
// every mesh the same wrong golden.
#include "kernels/philox.h"

#include <cmath>

namespace resumecheck::kernels {
namespace {

constexpr std::uint64_t multiplier0 = 0xD2511F53U, multiplier1 = 0xCD9E8D57U;
constexpr std::uint32_t weyl0 = 0x9E3779B9U, weyl1 = 0xBB67AE85U;

std::uint32_t high(std::uint64_t product) { return static_cast<std::uint32_t>(product >> 32); }
std::uint32_t low(std::uint64_t product) { return static_cast<std::uint32_t>(product); }

}  // namespace

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = multiplier0 * counter[0];
    const std::uint64_t product1 = multiplier1 * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1),
               high(product0) ^ counter[3] ^ key[1], low(product0)};
    key = {key[0] + weyl0, key[1] + weyl1};
  }
  return counter;
}

namespace {

std::uint32_t word_for(std::uint64_t seed, Stream stream, std::uint32_t ordinal, std::uint32_t step,
                       std::uint64_t index) {
  return philox4x32_10(
      {static_cast<std::uint32_t>(stream) + 256U * ordinal, step, low(index), high(index)},
      {low(seed), high(seed)})[0];
}

}  // namespace

float amax_value(std::uint64_t seed, std::uint32_t module, std::uint32_t step,
                 std::uint64_t index) {
  const std::uint32_t word = word_for(seed, Stream::amaxes, module, step, index);
  return std::ldexp(static_cast<float>((word >> 20) + 1), -8);
}

std::uint16_t rounding_bits(std::uint64_t seed, std::uint32_t ordinal, std::uint32_t step,
                            std::uint64_t index) {
  const std::uint32_t word = word_for(seed, Stream::stochastic_rounding, ordinal, step, index);
  return static_cast<std::uint16_t>(word >> 16);
}

float grid_value(std::uint64_t seed, Stream stream, std::uint32_t ordinal, std::uint32_t step,
                 std::uint64_t index, int exponent) {
  const std::uint32_t word = word_for(seed, stream, ordinal, step, index);
  const int grid = static_cast<int>(word >> 20) - 2048;
  return std::ldexp(static_cast<float>(grid), exponent);
}

}  // namespace resumecheck::kernels
