// The conformance of MPI ranks, run by every process of a job (see CMakeLists.txt for 1 to 4).
#include "harness/ranks/mpi_communicator.h"

#include <gtest/gtest.h>

#include "harness/ranks/communicator_conformance.h"
#include "harness/ranks/mpi_test_job.h"

namespace resumecheck {
namespace {

class MpiConformance : public testing::TestWithParam<conformance::Check> {};

TEST_P(MpiConformance, Holds) {
  const auto ranks = test_job().part(true, test_job().world().rank());
  try {
    GetParam().run(*ranks);
  } catch (const std::exception& problem) {
    ADD_FAILURE() << problem.what();
    ranks->leave(problem.what());
  }
}

INSTANTIATE_TEST_SUITE_P(Mpi, MpiConformance, testing::ValuesIn(conformance::checks()),
                         [](const auto& about) { return about.param.name; });

TEST(MpiJob, APartHasItsMembersInTheOrderAsked) {
  Communicator& world = test_job().world();
  const bool member = world.rank() != 0 || world.size() == 1;
  const auto part = test_job().part(member, -world.rank());
  ASSERT_EQ(part != nullptr, member);
  if (!part) return;
  EXPECT_EQ(part->size(), std::max(1, world.size() - 1));
  EXPECT_EQ(part->rank(), world.size() - 1 - world.rank());
  conformance::gathers_by_rank(*part);
}

// What a failed case leaves behind must not reach the next one.
TEST(MpiJob, IsUsableAfterAPartHasFailed) {
  for (int round = 0; round < 3; ++round) {
    conformance::failure_releases_the_rest(*test_job().part(true, test_job().world().rank()));
    conformance::different_calls_are_an_error(*test_job().part(true, test_job().world().rank()));
    conformance::gathers_by_rank(*test_job().part(true, test_job().world().rank()));
  }
}

}  // namespace
}  // namespace resumecheck
