// Drives the contracted unit through the same code as the others, so that the flag is the only
// difference.
#include "kernels/contracted.h"

#include <algorithm>
#include <stdexcept>

#include "kernels/run_tasks.h"

namespace resumecheck::kernels {

#if defined(__x86_64__)
extern const IsaUnit contracted_unit;
#endif

bool contracted_available() {
  const std::vector<Isa> isas = available_isas();
  return std::find(isas.begin(), isas.end(), Isa::avx2) != isas.end();
}

std::vector<CutBlock> adamw8bit_update_contracted(const QuantisedRun& run,
                                                  const StepScalars& scalars, Profile /*profile*/) {
  if (!contracted_available())
    throw std::runtime_error("kernels: the contracted build needs a processor with AVX2 and FMA");
#if defined(__x86_64__)
  return adamw8bit_update_with(contracted_unit, run, scalars);
#else
  return {};
#endif
}

}  // namespace resumecheck::kernels
