// What the device functions are in a build without CUDA: a count of 0, and a clear refusal to
// whoever did not ask for it.
#include <stdexcept>

#include "kernels/adamw.h"

namespace resumecheck::kernels {
namespace {

[[noreturn]] void refuse() {
  throw std::runtime_error(
      "kernels: this build has no CUDA kernels; configure it where nvcc is, with "
      "-DRESUMECHECK_CUDA=ON");
}

}  // namespace

int device_count() { return 0; }

DeviceDescription describe_device() { refuse(); }

std::vector<CutBlock> update_quantised_on_device(const QuantisedRun&, const StepScalars&, Profile) {
  refuse();
}

void finish_cut_block_on_device(const QuantisedRun&, const CutBlock&) { refuse(); }

void update_plain_on_device(const PlainRun&, const StepScalars&, Profile) { refuse(); }

void dequantise_on_device(Storage, const std::uint8_t*, const float*, const float*, std::int64_t,
                          std::int64_t, std::int64_t, float*) {
  refuse();
}

void quantise_on_device(Storage, const float*, std::int64_t, std::int64_t, const float*,
                        std::uint8_t*, float*) {
  refuse();
}

}  // namespace resumecheck::kernels
