// Drives the wrongly built units through the same code as the others, so that the flag is the only
// difference.
#include "kernels/contracted.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/model_tasks.h"
#include "kernels/run_tasks.h"

namespace resumecheck::kernels {

#if defined(__x86_64__)
extern const IsaUnit contracted_unit, fast_math_unit;
#else
const IsaUnit &contracted_unit = baseline_unit, &fast_math_unit = baseline_unit;
#endif

namespace {

const IsaUnit& if_available(const IsaUnit& unit) {
  if (!contracted_available())
    throw std::runtime_error("kernels: a build with forbidden flags needs AVX2 and FMA");
  return unit;
}

}  // namespace

bool contracted_available() {
  const std::vector<Isa> isas = available_isas();
  return std::find(isas.begin(), isas.end(), Isa::avx2) != isas.end();
}

std::vector<CutBlock> update_quantised_contracted(const QuantisedRun& run,
                                                  const StepScalars& scalars, Profile profile) {
  return update_quantised_with(if_available(contracted_unit), run, scalars, profile);
}

std::vector<CutBlock> update_quantised_fast_math(const QuantisedRun& run,
                                                 const StepScalars& scalars, Profile profile) {
  return update_quantised_with(if_available(fast_math_unit), run, scalars, profile);
}

ModelKernels model_kernels_contracted() {
  return model_kernels_with(if_available(contracted_unit).model, "contracted");
}

ModelKernels model_kernels_fast_math() {
  return model_kernels_with(if_available(fast_math_unit).model, "fast math");
}

}  // namespace resumecheck::kernels
