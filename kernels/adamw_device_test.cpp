// The device code over a stand-in of the CUDA runtime: the same kernels, launches and copies, with
// threads as fibers. What it cannot show is that a device rounds as a CPU does; tools/gpu_check
// shows that on one.
#include <cuda_runtime.h>  // the stand-in
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace resumecheck::kernels {
namespace {
alignas(64) float shared_words[12 * 1024];  // 48 KiB, what every device gives a block
}  // namespace
}  // namespace resumecheck::kernels

#include "kernels/adamw.cu"
#include "kernels/twin_comparison.h"

namespace resumecheck::kernels {
namespace {

cuda_stand_in::Device& stand_in() { return cuda_stand_in::Device::get(); }

Subject device_subject() {
  return {"device",
          update_quantised_on_device,
          finish_cut_block_on_device,
          update_plain_on_device,
          quantise_on_device,
          dequantise_on_device};
}

TEST(DeviceCode, GivesTheSlowTwinsBits) {
  const long before = stand_in().launches;
  for (const Outcome& outcome : compare_with_twin(device_subject(), 1, 23)) {
    EXPECT_GT(outcome.elements, 0) << outcome.kernel << " compared nothing";
    EXPECT_EQ(outcome.mismatches, 0)
        << outcome.kernel << ": " << outcome.first_mismatch
        << "\nif the host builds are right, look at what adamw.cu copies, and for a barrier "
        << "that is missing";
  }
  EXPECT_GT(stand_in().launches, before) << "nothing was launched";
  EXPECT_FALSE(stand_in().bytes_written_past_shared_memory)
      << "a kernel writes behind the shared memory that its launch asked for";
  EXPECT_TRUE(stand_in().allocations.empty()) << "device memory is left without an owner";
}

TEST(DeviceCode, NamesAFailureAndGivesItsMemoryBack) {
  std::vector<float> values(1000, 1.0F), scale(4);
  std::vector<std::uint8_t> codes(1000);
  for (int allocations = 0; allocations < 5; ++allocations) {
    stand_in().allocations_until_failure = allocations;
    std::string said;
    try {
      quantise_on_device(Storage::map8, values.data(), 1000, 256,
                         standard_codebook(Storage::map8, true).data(), codes.data(), scale.data());
    } catch (const std::runtime_error& error) {
      said = error.what();
    }
    stand_in().allocations_until_failure = -1;
    EXPECT_THAT(said, testing::HasSubstr("allocating memory: cudaErrorMemoryAllocation"));
    EXPECT_TRUE(stand_in().allocations.empty()) << "after " << allocations << " allocations";
  }
}

TEST(DeviceCode, RefusesBlocksThatDoNotFitSharedMemory) {
  float value = 0, scale = 0;
  std::uint8_t code = 0;
  QuantisedRun run;
  run.count = run.whole = 1;
  run.block = 4097;
  run.param = &value;
  run.grad = &value;
  run.codes1 = run.codes2 = &code;
  run.scale1 = run.scale2 = &scale;
  run.codebook1 = standard_codebook(Storage::map8, true).data();
  run.codebook2 = standard_codebook(Storage::map8, false).data();
  EXPECT_THROW(update_quantised_on_device(run, step_scalars({}, 1), Profile::canonical),
               std::invalid_argument);
}

TEST(DeviceCount, IsZeroWithoutADriverAndNamesAnythingElse) {
  EXPECT_EQ(device_count(), 1);
  EXPECT_EQ(describe_device().name, "stand-in");
  for (const cudaError_t absent : {cudaErrorNoDevice, cudaErrorInsufficientDriver}) {
    stand_in().count_status = absent;
    EXPECT_EQ(device_count(), 0);
  }
  stand_in().count_status = cudaErrorUnknown;
  EXPECT_THROW(device_count(), std::runtime_error);
  stand_in().count_status = cudaSuccess;
}

}  // namespace
}  // namespace resumecheck::kernels
