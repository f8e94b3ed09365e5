// The ways in which launchers show devices to processes: all of the host's, one each, none.
#include "harness/ranks/device_plan.h"

#include <gtest/gtest.h>

#include "harness/ranks/thread_communicator.h"

namespace resumecheck {
namespace {

std::vector<DevicePlan> plans_of(const std::vector<VisibleDevices>& visible) {
  std::vector<DevicePlan> plans(visible.size());
  run_ranks(static_cast<int>(visible.size()), [&](Communicator& ranks) {
    const auto rank = static_cast<std::size_t>(ranks.rank());
    plans[rank] = plan_devices(ranks, visible[rank]);
  });
  for (const DevicePlan& plan : plans) {
    EXPECT_EQ(plan.not_nccl, plans[0].not_nccl) << "ranks would build different communicators";
    EXPECT_EQ(plan.no_device, plans[0].no_device);
  }
  return plans;
}

TEST(DevicePlan, RanksOfAHostTakeItsDevicesInTurn) {
  const VisibleDevices a = {"a", {"0", "1"}}, b = {"b", {"0", "1"}};
  const auto plans = plans_of({a, b, a, b});
  EXPECT_EQ(plans[0].device, 0);
  EXPECT_EQ(plans[1].device, 0);
  EXPECT_EQ(plans[2].device, 1);
  EXPECT_EQ(plans[3].device, 1);
  EXPECT_EQ(plans[0].not_nccl, "");
}

TEST(DevicePlan, MoreRanksThanDevicesShareThemAndNcclIsOut) {
  const VisibleDevices two = {"a", {"0", "1"}};
  const auto plans = plans_of({two, two, two});
  EXPECT_EQ(plans[2].device, 0);
  EXPECT_EQ(plans[2].no_device, "");
  EXPECT_EQ(plans[2].not_nccl, "ranks 0 and 2 of a share the CUDA device 0");
}

// srun --gpus-per-task=1: every process sees one device and calls it number 0.
TEST(DevicePlan, OneDeviceShownToEachRankIsADeviceForEach) {
  const auto plans = plans_of({{"a", {"3b"}}, {"a", {"5e"}}});
  EXPECT_EQ(plans[1].device, 0);
  EXPECT_EQ(plans[1].not_nccl, "");
}

TEST(DevicePlan, TheSameSingleDeviceShownToAllIsShared) {
  EXPECT_NE(plans_of({{"a", {"3b"}}, {"a", {"3b"}}})[0].not_nccl, "");
}

TEST(DevicePlan, ARankWithoutADeviceIsNamed) {
  const auto plans = plans_of({{"a", {"0"}}, {"b", {}}});
  EXPECT_EQ(plans[0].no_device, "rank 1 sees no CUDA device on b");
  EXPECT_EQ(plans[1].device, -1);
}

}  // namespace
}  // namespace resumecheck
