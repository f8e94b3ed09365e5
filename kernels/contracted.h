// The same step built with the flags this project forbids: -ffp-contract=fast lets the compiler
// round a * b + c once instead of twice, and -ffast-math lets it divide by multiplying. They exist
// to show that goldens and comparisons notice a compiler flag; nothing may compute state with them.
// Target: resumecheck_kernels_contracted.
#pragma once

#include "kernels/adamw.h"
#include "kernels/model.h"

namespace resumecheck::kernels {

bool contracted_available();  // the processor has AVX2 and FMA: needed by all of these

// As update_quantised; throw std::runtime_error where they are not available.
// Contraction changes a few fp32 parameters in a hundred thousand, as the step's own fused
// multiply-adds are written out and leave it only the weight decay.
std::vector<CutBlock> update_quantised_contracted(const QuantisedRun& run,
                                                  const StepScalars& scalars, Profile profile);
// -ffast-math changes a good part of all fp32 parameters in one step.
std::vector<CutBlock> update_quantised_fast_math(const QuantisedRun& run,
                                                 const StepScalars& scalars, Profile profile);

// The model's pieces of the same two builds; throw as above.
ModelKernels model_kernels_contracted();
ModelKernels model_kernels_fast_math();

}  // namespace resumecheck::kernels
