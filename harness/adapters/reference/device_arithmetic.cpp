#include "harness/adapters/reference/device_arithmetic.h"

#include "harness/state/error.h"

namespace resumecheck {
namespace {

class DeviceArithmetic final : public Arithmetic {
 public:
  std::string name() const override { return "cuda"; }
  std::vector<kernels::CutBlock> update(const kernels::QuantisedRun& run,
                                        const OptimizerStep& step) const override {
    return kernels::update_quantised_on_device(run, step_scalars(step.settings, step.number),
                                               step.settings.profile);
  }
  void finish(const kernels::QuantisedRun& run, const kernels::CutBlock& cut) const override {
    kernels::finish_cut_block_on_device(run, cut);
  }
  void update(const kernels::PlainRun& run, const OptimizerStep& step) const override {
    kernels::update_plain_on_device(run, step_scalars(step.settings, step.number),
                                    step.settings.profile);
  }
  const kernels::ModelKernels* model() const override { return &model_; }

 private:
  kernels::ModelKernels model_ = kernels::device_model_kernels();
};

}  // namespace

int usable_devices() { return kernels::device_count(); }

std::string usable_device_name() { return kernels::describe_device().name; }

std::vector<std::string> device_bus_ids() {
  std::vector<std::string> ids;
  const int devices = usable_devices();
  ids.reserve(static_cast<std::size_t>(devices));
  for (int device = 0; device < devices; ++device) ids.push_back(kernels::device_bus_id(device));
  return ids;
}

std::shared_ptr<const Arithmetic> device_arithmetic(int device) {
  if (usable_devices() == 0) {
    throw Error(Error::Kind::harness, "device cuda", "no CUDA device is visible to this program",
                "run it where there is one, or with --device cpu");
  }
  kernels::use_device(device);
  return std::make_shared<DeviceArithmetic>();
}

}  // namespace resumecheck
