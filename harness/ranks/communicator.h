// What ranks say to each other, whatever carries it (MPI, threads in one process). There is no sum:
// sums across ranks gather and add in order; MAX is exact and may be reduced in any order. A rank
// that fails says so, because whoever waits for it would otherwise wait for ever and look like the
// culprit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "harness/state/logical_state.h"

namespace resumecheck {

// Thrown to ranks that waited for one that has failed or ended: "another rank failed: rank 1: why".
// Never the cause of anything.
class PeerFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Every rank makes the same calls in the same order. One that waits longer than the communicator's
// limit gets Error(harness); ranks that disagree about which call it is, or about the length of a
// reduction, get Error(harness) too.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string_view transport() const = 0;  // mpi | nccl | threads
  virtual void barrier() = 0;
  virtual std::vector<Bytes> all_gather(
      std::span<const std::byte> mine) = 0;                          // by rank; lengths may differ
  virtual void all_reduce_max(std::span<std::uint32_t> values) = 0;  // element by element, in place

  // This rank has failed: whoever waits for it, now or at the next call, gets PeerFailed. The last
  // call on a communicator; does nothing where an earlier call has already failed. Every rank must
  // still come to one more call (a phase ends with a barrier), or nobody would hear it.
  virtual void leave(std::string_view why) = 0;
};

}  // namespace resumecheck
