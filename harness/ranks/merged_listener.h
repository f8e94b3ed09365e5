// GoogleTest under mpirun: a test is every rank's test. Any rank's failure must fail it on all of
// them, be printed once, by rank 0, with the rank it happened on, and all must leave with one exit
// code; else rank 3's failure scrolls by between four copies of "OK".
#pragma once

#include "harness/ranks/communicator.h"

namespace resumecheck {

// After testing::InitGoogleTest: rank 0 alone prints and writes --gtest_output; every rank uses one
// seed for shuffling, rank 0's. The communicator must outlive the tests and be used by nothing
// else.
void merge_ranks(Communicator& ranks);

// RUN_ALL_TESTS() with the one exit code that all ranks agree on.
int run_merged_tests(Communicator& ranks);

}  // namespace resumecheck
