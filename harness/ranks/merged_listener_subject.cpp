// Tests that fail on purpose, on one rank only: what merged_listener_test.cpp runs under mpirun and
// reads the output of.
#include <gtest/gtest.h>

#include "harness/ranks/mpi_test_job.h"

namespace {

int rank() { return resumecheck::test_job().world().rank(); }

TEST(Subject, PassesEverywhere) { EXPECT_GE(rank(), 0); }
TEST(Subject, FailsOnRankOne) { EXPECT_NE(rank(), 1) << "the only thing wrong"; }
TEST(Subject, FailsOnRankZero) { EXPECT_NE(rank(), 0) << "wrong where it is printed"; }
TEST(Subject, ThrowsOnRankOne) {
  if (rank() == 1) throw std::runtime_error("thrown, not reported");
}

}  // namespace
