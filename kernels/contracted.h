// The same step built with the compiler free to contract a * b + c into one rounding: the flag this
// project switches off, switched on. It exists to show that goldens and comparisons notice a
// compiler flag; nothing may compute state with it. Target: resumecheck_kernels_contracted.
#pragma once

#include "kernels/adamw8bit.h"

namespace resumecheck::kernels {

bool contracted_available();  // the processor has AVX2 and FMA

// As adamw8bit_update; throws std::runtime_error where it is not available.
std::vector<CutBlock> adamw8bit_update_contracted(const QuantisedRun& run,
                                                  const StepScalars& scalars, Profile profile);

}  // namespace resumecheck::kernels
