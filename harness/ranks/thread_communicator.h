// Ranks as threads of one process: what `resumecheck detect`, the goldens and most tests run on.
// One rank's exception, early return or silence must never leave the others waiting.
#pragma once

#include <functional>

#include "harness/ranks/communicator.h"

namespace resumecheck {

constexpr double kThreadLimitSeconds = 120;

// Runs body once for each rank, each on a thread of its own, and returns when all have ended. A
// rank whose body throws or returns early releases the rest. Rethrows the exception of the rank
// that failed first by itself (PeerFailed only where nobody did).
void run_ranks(int ranks, const std::function<void(Communicator&)>& body,
               double limit_seconds = kThreadLimitSeconds);

// The communicator of a run of one rank: every call returns at once.
std::unique_ptr<Communicator> single_rank();

}  // namespace resumecheck
