// model.cu over the stand-in of the CUDA runtime, as adamw_device_test.cpp does with adamw.cu:
// index arithmetic, launches, copies and barriers. That a device rounds as a CPU does only
// tools/gpu_check can show, on one.
#include <cuda_runtime.h>  // the stand-in
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace resumecheck::kernels {
namespace {
alignas(64) float shared_words[12 * 1024];  // 48 KiB, what every device gives a block
}  // namespace
}  // namespace resumecheck::kernels

#include "kernels/model.cu"
#include "kernels/model_twin_comparison.h"

namespace resumecheck::kernels {
namespace {

cuda_stand_in::Device& stand_in() { return cuda_stand_in::Device::get(); }

TEST(ModelDeviceCode, GivesTheSlowTwinsBits) {
  const long before = stand_in().launches;
  for (const Outcome& outcome : compare_model_with_twin(device_model_kernels(), 1)) {
    EXPECT_GT(outcome.elements, 0) << outcome.kernel << " compared nothing";
    EXPECT_EQ(outcome.mismatches, 0)
        << outcome.kernel << ": " << outcome.first_mismatch
        << "\nif the host builds are right, look at what model.cu copies, and for a barrier that "
        << "is missing";
  }
  EXPECT_GT(stand_in().launches, before) << "nothing was launched";
  EXPECT_FALSE(stand_in().bytes_written_past_shared_memory)
      << "a kernel writes behind the shared memory that its launch asked for";
  EXPECT_TRUE(stand_in().allocations.empty()) << "device memory is left without an owner";
}

TEST(ModelDeviceCode, NamesAFailureAndGivesItsMemoryBack) {
  const std::vector<float> values(100, 1.0F);
  std::vector<std::uint8_t> codes(100);
  for (int allocations = 0; allocations < 2; ++allocations) {
    stand_in().allocations_until_failure = allocations;
    std::string said;
    try {
      device_model_kernels().quantise(values.data(), 100, 1.0F, Fp8Format::e4m3, codes.data());
    } catch (const std::runtime_error& error) {
      said = error.what();
    }
    stand_in().allocations_until_failure = -1;
    EXPECT_THAT(said, testing::HasSubstr("allocating memory: cudaErrorMemoryAllocation"));
    EXPECT_TRUE(stand_in().allocations.empty()) << "after " << allocations << " allocations";
  }
}

TEST(ModelDeviceCode, LaunchesNothingForNothing) {
  const long before = stand_in().launches;
  device_model_kernels().quantise(nullptr, 0, 1.0F, Fp8Format::e4m3, nullptr);
  EXPECT_EQ(device_model_kernels().amax(nullptr, 0), 0U);
  EXPECT_EQ(stand_in().launches, before) << "a launch of no blocks is an error of CUDA";
}

}  // namespace
}  // namespace resumecheck::kernels
