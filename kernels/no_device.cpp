// What the device functions are in a build without CUDA: a count of 0, and a clear refusal to
// whoever did not ask for it.
#include <stdexcept>

#include "kernels/adamw8bit.h"

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

std::vector<CutBlock> adamw8bit_update_on_device(const QuantisedRun&, const StepScalars&, Profile) {
  refuse();
}

void adamw8bit_finish_on_device(const QuantisedRun&, const CutBlock&) { refuse(); }

void adamw_update_on_device(const PlainRun&, const StepScalars&, Profile) { refuse(); }

void dequantise_on_device(const std::uint8_t*, const float*, const float*, std::int64_t,
                          std::int64_t, std::int64_t, float*) {
  refuse();
}

void quantise_on_device(const float*, std::int64_t, std::int64_t, const float*, std::uint8_t*,
                        float*) {
  refuse();
}

}  // namespace resumecheck::kernels
