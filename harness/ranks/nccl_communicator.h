// Ranks with a CUDA device each, whose payloads NCCL carries. Another communicator, the carrier,
// says which call comes next, how long it is and who has failed: NCCL itself cannot tell a rank
// that waits for a lost one, and would wait for ever.
#pragma once

#include <memory>
#include <string>

#include "harness/ranks/communicator.h"

namespace resumecheck {

constexpr double kNcclLimitSeconds = 60;

std::string nccl_version();  // that this program runs with: "2.28.3"; empty: built without NCCL

// Called by all ranks of the carrier together, each with a device of its own that it has chosen
// (cudaSetDevice). The carrier must outlive it and serve nothing else meanwhile. A device or NCCL
// call that fails is kernels::DeviceFailure naming rank and device on the rank that it happened on
// and PeerFailed on the others; a payload that is not there within the limit is Error(harness).
std::unique_ptr<Communicator> nccl_communicator(Communicator& carrier, int device,
                                                double limit_seconds = kNcclLimitSeconds);

}  // namespace resumecheck
