// The host's delayed scaling. Its recipe is checked where it becomes a task (model_tasks.cpp), so
// that a device refuses what the host refuses.
#include "kernels/delayed_scaling.h"

#include "kernels/model.h"

namespace resumecheck::kernels {

void update_delayed_scaling(const DelayedScaling& recipe, Fp8Format format, const float* reduced,
                            const ScalingState& state, Isa isa) {
  host_model_kernels(isa).update_scaling(recipe, format, reduced, state);
}

}  // namespace resumecheck::kernels
