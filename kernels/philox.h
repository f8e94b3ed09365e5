// Philox4x32-10, counter-based: a value depends on what it is for, never on who computes it or in
// which order. Key = (seed low, seed high). Counter = (stream + 256 * ordinal, step, index low,
// index high); word 0 is used.
#pragma once

#include <array>
#include <cstdint>

namespace resumecheck::kernels {

enum class Stream : std::uint32_t {
  init = 1,
  data = 2,
  targets = 3,
  gradients = 4,
  stochastic_rounding = 5,
  dropout = 6,
  amaxes = 7
};

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key);

// ((u >> 20) - 2048) * 2^exponent: a 12-bit integer grid, so that sums of up to 2^12 such values
// are exact in fp32. ordinal: the parameter's position in bytewise FQN order; step: 0 for init,
// else 1-based; index: flattened global element.
float grid_value(std::uint64_t seed, Stream stream, std::uint32_t ordinal, std::uint32_t step,
                 std::uint64_t index, int exponent);

// An injected amax: ((u >> 20) + 1) * 2^-8, so never 0 and exact. index: direction * 64 + column.
float amax_value(std::uint64_t seed, std::uint32_t module, std::uint32_t step, std::uint64_t index);

// What stochastic rounding to bf16 compares the 16 bits cut off with: the top half of word 0. No
// mesh can change it.
std::uint16_t rounding_bits(std::uint64_t seed, std::uint32_t ordinal, std::uint32_t step,
                            std::uint64_t index);

}  // namespace resumecheck::kernels
