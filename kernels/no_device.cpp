// What the device functions are in a build without CUDA: a count of 0, and a clear refusal to
// whoever did not ask for it.
#include <stdexcept>

#include "kernels/adamw.h"
#include "kernels/model_tasks.h"

namespace resumecheck::kernels {
namespace {

[[noreturn]] void refuse() {
  throw std::runtime_error(
      "kernels: this build has no CUDA kernels; configure it where nvcc is, with "
      "-DRESUMECHECK_CUDA=ON");
}

template <class Task>
void refuse_task(const Task&) {
  refuse();
}

constexpr ModelUnit no_unit = {
    refuse_task<CastTask>,     refuse_task<DecodeTask>,       refuse_task<AmaxTask>,
    refuse_task<ScalingTask>,  refuse_task<ProductTask>,      refuse_task<ChunkAdditionTask>,
    refuse_task<EpilogueTask>, refuse_task<LayerNormTask>,    refuse_task<LayerNormBackwardTask>,
    refuse_task<ReluTask>,     refuse_task<ReluBackwardTask>, refuse_task<LossTask>};

}  // namespace

int device_count() { return 0; }

std::string device_bus_id(int) { refuse(); }

void use_device(int) { refuse(); }

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

ModelKernels device_model_kernels() { return model_kernels_with(no_unit, "device"); }

}  // namespace resumecheck::kernels
