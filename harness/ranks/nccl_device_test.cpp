// NCCL itself, on the devices of this machine: a rank each, up to four, as threads. Skipped, with
// the reason, where there is none or the build has no NCCL.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/ranks/communicator_conformance.h"
#include "harness/ranks/nccl_communicator.h"
#include "harness/ranks/thread_communicator.h"
#include "kernels/adamw.h"

namespace resumecheck {
namespace {

class NcclOnDevices : public testing::TestWithParam<conformance::Check> {};

TEST_P(NcclOnDevices, Holds) {
  if (nccl_version().empty()) GTEST_SKIP() << "this build has no NCCL";
  const int devices = kernels::device_count();
  if (devices == 0) GTEST_SKIP() << "no CUDA device";
  run_ranks(std::min(devices, 4), [](Communicator& carrier) {
    const auto ranks = nccl_communicator(carrier, carrier.rank());
    GetParam().run(*ranks);
  });
}

INSTANTIATE_TEST_SUITE_P(Nccl, NcclOnDevices, testing::ValuesIn(conformance::checks()),
                         [](const auto& about) { return about.param.name; });

TEST(NcclOnDevices, TheLibraryIsTheOneThatTheProgramWasBuiltWith) {
  const std::string version = nccl_version();
  if (version.empty()) GTEST_SKIP() << "this build has no NCCL";
  EXPECT_EQ(version.rfind("2.", 0), 0U) << version;
}

}  // namespace
}  // namespace resumecheck
