// Threads as ranks: the common conformance, and that no failure of one rank can leave the test, and
// with it the whole program, waiting.
#include "harness/ranks/thread_communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "harness/ranks/communicator_conformance.h"

namespace resumecheck {
namespace {

class ThreadConformance : public testing::TestWithParam<std::tuple<int, conformance::Check>> {};

TEST_P(ThreadConformance, Holds) {
  const auto& [ranks, check] = GetParam();
  run_ranks(ranks, check.run, 20);
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadConformance,
                         testing::Combine(testing::Values(1, 2, 3, 5),
                                          testing::ValuesIn(conformance::checks())),
                         [](const auto& about) {
                           return std::get<1>(about.param).name + "_of_" +
                                  std::to_string(std::get<0>(about.param));
                         });

TEST(RunRanks, RethrowsTheExceptionOfTheRankThatFailedAndNotOfThoseThatWaited) {
  std::atomic<int> released = 0;
  try {
    run_ranks(4, [&](Communicator& ranks) {
      if (ranks.rank() == 2) throw std::out_of_range("no such block");
      try {
        ranks.barrier();
      } catch (const PeerFailed&) {
        ++released;
        throw;
      }
    });
    FAIL() << "rank 2's exception was lost";
  } catch (const std::out_of_range& failure) {
    EXPECT_STREQ(failure.what(), "no such block");
  }
  EXPECT_EQ(released, 3);
}

TEST(RunRanks, ARankThatEndsEarlyReleasesTheRest) {
  try {
    run_ranks(3, [](Communicator& ranks) {
      if (ranks.rank() != 1) ranks.barrier();
    });
    FAIL() << "ranks passed a barrier that rank 1 never came to";
  } catch (const PeerFailed& failure) {
    EXPECT_NE(std::string(failure.what()).find("rank 1 ended"), std::string::npos)
        << failure.what();
  }
}

TEST(RunRanks, ARankThatDoesNotComeIsAnErrorAfterTheLimit) {
  std::atomic<bool> gave_up = false;
  const auto body = [&](Communicator& ranks) {
    if (ranks.rank() == 0) {
      while (!gave_up) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    try {
      ranks.barrier();
    } catch (...) {
      gave_up = true;
      throw;
    }
  };
  EXPECT_THROW(run_ranks(2, body, 0.05), Error);
}

TEST(SingleRank, GivesBackWhatItWasGiven) {
  const auto rank = single_rank();
  std::vector<std::uint32_t> values = {3};
  rank->all_reduce_max(values);
  rank->barrier();
  EXPECT_EQ(values[0], 3U);
  const auto all = rank->all_gather(conformance::bytes_of("x"));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(conformance::text_of(all[0]), "x");
}

}  // namespace
}  // namespace resumecheck
