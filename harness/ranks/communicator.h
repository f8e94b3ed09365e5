// What ranks say to each other, whatever carries it (MPI, threads in one process). There is no sum:
// sums across ranks gather and add in order; MAX is exact and may be reduced in any order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "harness/state/logical_state.h"

namespace resumecheck {

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void barrier() = 0;
  virtual std::vector<Bytes> all_gather(
      std::span<const std::byte> mine) = 0;                          // by rank; lengths may differ
  virtual void all_reduce_max(std::span<std::uint32_t> values) = 0;  // element by element, in place
};

}  // namespace resumecheck
