// A thread block of a device as a team (phases.h), and how the host starts some. Each launch is
// waited for, so that an error is named where it happened and not at the next call.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <stdexcept>

#include "kernels/device_memory.h"
#include "kernels/phases.h"

// A stand-in of the runtime compiles .cu files for the host and defines its own launch.
#ifndef RESUMECHECK_LAUNCH
#define RESUMECHECK_LAUNCH(kernel, blocks, shared_bytes, ...) \
  kernel<<<static_cast<unsigned>(blocks), threads_per_block, shared_bytes>>>(__VA_ARGS__)
#endif

namespace resumecheck::kernels {
namespace {

#ifdef __CUDACC__
extern __shared__ float shared_words[];
#endif

struct DeviceTeam {
  template <int stride, class Phase>
  RESUMECHECK_PHASE void elements(int count, Phase phase) const {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < stride)
      for (int i = thread; i < count; i += stride) phase(thread, i);
    __syncthreads();
  }
  template <class Phase>
  RESUMECHECK_PHASE void threads(int active, Phase phase) const {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < active) phase(thread);
    __syncthreads();
  }
};

inline void finish_launch(const char* kernel) {
  check_cuda(cudaGetLastError(), kernel);
  check_cuda(cudaDeviceSynchronize(), kernel);
}

inline std::int64_t launchable(std::int64_t blocks) {
  if (blocks > std::numeric_limits<int>::max())
    throw std::invalid_argument("kernels: more blocks than one launch on a device can hold");
  return blocks;
}

}  // namespace
}  // namespace resumecheck::kernels
