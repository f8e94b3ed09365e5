// What a phase is: work of a thread block in one source for CPUs and CUDA devices. A device runs a
// block's threads at once, the host runs each phase as a loop over them. A phase may read what an
// earlier phase wrote and nothing that a neighbour writes in the same phase; between phases nothing
// lives outside memory, for a value kept in a register across a barrier exists on the device only.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/float_bits.h"

#if defined(__CUDACC__)
#define RESUMECHECK_PHASE __device__ __forceinline__
#define RESUMECHECK_CALLED __device__ __noinline__
#else
#define RESUMECHECK_PHASE inline __attribute__((always_inline))
#define RESUMECHECK_CALLED __attribute__((noinline))
#endif

namespace resumecheck::kernels {
namespace {

// A team runs a phase by all its threads and ends it with a barrier:
//   team.elements<stride>(count, phase): thread t < stride takes elements t, t + stride, ...
//   team.threads(active, phase): the first `active` threads, once each
constexpr int threads_per_block = 256;
constexpr int partial_maxima = 32;

RESUMECHECK_PHASE float canonical(float value) {
  return value != value ? float_of(0x7fc00000U) : value;
}

RESUMECHECK_PHASE std::uint32_t magnitude_bits(float value) { return bits_of(value) & 0x7fffffffU; }

struct ClearPhase {
  std::uint32_t* words;
  RESUMECHECK_PHASE void operator()(int thread) const { words[thread] = 0; }
};

struct MaximumPhase {
  const std::uint32_t* partials;
  std::uint32_t* absmax;
  RESUMECHECK_PHASE void operator()(int thread) const {
    const std::uint32_t* mine = partials + thread * partial_maxima;
    std::uint32_t largest = 0;
    for (int i = 0; i < partial_maxima; ++i) largest = mine[i] > largest ? mine[i] : largest;
    absmax[thread] = largest;
  }
};

RESUMECHECK_PHASE int elements_of_block(std::int64_t count, std::int64_t block,
                                        std::int64_t index) {
  const std::int64_t left = count - index * block;
  return static_cast<int>(left < block ? left : block);
}

RESUMECHECK_HOST_DEVICE inline std::int64_t blocks_of(std::int64_t count, std::int64_t block) {
  return (count + block - 1) / block;
}

}  // namespace
}  // namespace resumecheck::kernels
