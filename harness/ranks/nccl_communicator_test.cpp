// The NCCL ranks over a stand-in of NCCL and of the CUDA runtime: the common conformance, the order
// of calls that NCCL needs, and what happens when a rank leaves a call out or its device is lost.
// What it cannot show is that NCCL itself does as told; nccl_device_test.cpp runs on a device.
#include "harness/ranks/nccl_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>  // the stand-in

#include <optional>

#include "harness/ranks/communicator_conformance.h"
#include "harness/ranks/thread_communicator.h"
#include "kernels/device_failure.h"

namespace resumecheck {
namespace {

using kernels::DeviceFailure;
using nccl_stand_in::Fault;
using nccl_stand_in::World;
using testing::ElementsAre;
using testing::HasSubstr;

cuda_stand_in::Device& devices() { return cuda_stand_in::Device::get(); }

void run_over_nccl(int ranks, const std::function<void(Communicator&)>& body, double limit = 20) {
  run_ranks(
      ranks,
      [&](Communicator& carrier) {
        const auto over_nccl = nccl_communicator(carrier, carrier.rank(), limit);
        try {
          body(*over_nccl);
        } catch (const std::exception& problem) {
          over_nccl->leave(problem.what());
          throw;
        }
      },
      20);
}

class NcclRanks : public testing::Test {
 protected:
  NcclRanks() { devices().devices = 8; }
  ~NcclRanks() override {
    EXPECT_EQ(World::get().living, 0) << "a communicator was neither destroyed nor aborted";
    EXPECT_TRUE(devices().allocations.empty()) << "device memory is left without an owner";
    devices().find_again();
    World::get().fault = {};
  }
};

class NcclConformance : public NcclRanks,
                        public testing::WithParamInterface<std::tuple<int, conformance::Check>> {};

TEST_P(NcclConformance, Holds) {
  const auto& [ranks, check] = GetParam();
  run_over_nccl(ranks, check.run);
}

INSTANTIATE_TEST_SUITE_P(StandIn, NcclConformance,
                         testing::Combine(testing::Values(1, 2, 3, 5),
                                          testing::ValuesIn(conformance::checks())),
                         [](const auto& about) {
                           return std::get<1>(about.param).name + "_of_" +
                                  std::to_string(std::get<0>(about.param));
                         });

// Lengths 0, 1, 2: padded to 2 on every rank. Nothing is asked of NCCL where there is nothing.
void a_few_calls(Communicator& ranks) {
  ranks.all_gather(Bytes(static_cast<std::size_t>(ranks.rank())));
  ranks.barrier();
  std::vector<std::uint32_t> values = {1, 2, 3};
  ranks.all_reduce_max(values);
  ranks.all_gather({});
  ranks.all_gather(Bytes(5));
}

TEST_F(NcclRanks, MakeTheSameCallsInTheSameOrder) {
  run_over_nccl(3, a_few_calls);
  const auto& calls = World::get().last()->calls;
  ASSERT_EQ(calls.size(), 3U);
  for (const auto& [rank, its] : calls) {
    EXPECT_THAT(its,
                ElementsAre("all_gather of bytes 2", "max of uint32 3", "all_gather of bytes 5"))
        << "rank " << rank;
  }
}

class NcclFault : public NcclRanks, public testing::WithParamInterface<Fault::Kind> {};

TEST_P(NcclFault, EndsInAnErrorOnEveryRankAndNotInAHang) {
  World::get().fault = {GetParam(), 1, 1};
  std::atomic<int> errors = 0;
  const auto body = [&](Communicator& ranks) {
    try {
      a_few_calls(ranks);
    } catch (const std::exception&) {
      ++errors;
      throw;
    }
  };
  EXPECT_THROW(run_over_nccl(3, body, 0.2), std::exception);
  EXPECT_EQ(errors, 3);
  const auto& calls = World::get().last()->calls;
  EXPECT_NE(calls.at(1), calls.at(0)) << "the recorded calls do not show the fault";
}

INSTANTIATE_TEST_SUITE_P(StandIn, NcclFault,
                         testing::Values(Fault::Kind::dropped, Fault::Kind::wrong_length),
                         [](const auto& about) {
                           return about.param == Fault::Kind::dropped ? "dropped" : "wrong_length";
                         });

// Whichever call it is that fails first: before the agreement, or while the others are in NCCL.
TEST_F(NcclRanks, ALostDeviceIsNamedWithItsRankWhereverItIsLost) {
  int lost_in_the_middle = 0;
  for (int calls = 0; calls < 40; ++calls) {
    SCOPED_TRACE("lost after " + std::to_string(calls) + " calls");
    devices().lose(1, calls);
    std::atomic<int> released = 0;
    try {
      run_over_nccl(
          3,
          [&](Communicator& ranks) {
            try {
              a_few_calls(ranks);
              if (ranks.rank() != 1) ranks.barrier();
              if (ranks.rank() == 1) ranks.barrier();
            } catch (const PeerFailed& failed) {
              EXPECT_THAT(failed.what(), HasSubstr("rank 1: rank 1 on CUDA device 1: CUDA, while"));
              ++released;
              throw;
            }
          },
          0.2);
    } catch (const DeviceFailure& failure) {
      EXPECT_THAT(failure.what(), HasSubstr("rank 1 on CUDA device 1: CUDA, while"));
      EXPECT_THAT(failure.what(), HasSubstr("cudaErrorLaunchFailure (unspecified launch failure)"));
      EXPECT_EQ(released, 2) << "ranks were not told whose device it was";
      ++lost_in_the_middle;
    }
  }
  EXPECT_GE(lost_in_the_middle, 8);
}

TEST_F(NcclRanks, TwoOnOneDeviceAreRefused) {
  const auto body = [](Communicator& carrier) { nccl_communicator(carrier, 0, 5); };
  EXPECT_THROW(run_ranks(2, body), DeviceFailure);
}

TEST_F(NcclRanks, ADeviceThatIsNotThereReleasesTheOthers) {
  devices().devices = 1;
  const auto body = [](Communicator& carrier) { nccl_communicator(carrier, carrier.rank(), 5); };
  EXPECT_THROW(run_ranks(2, body), DeviceFailure);
}

}  // namespace
}  // namespace resumecheck
