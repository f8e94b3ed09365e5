// As twin_comparison.h, of FP8 and the model: every piece by itself, on values that break kernels
// and on sizes off every grid, and whole steps of the model with the samples and the chunks divided
// as ranks and micro-batches divide them.
#pragma once

#include <vector>

#include "kernels/model.h"
#include "kernels/twin_inputs.h"

namespace resumecheck::kernels {

// repetitions: how many times the random inputs are drawn anew.
std::vector<Outcome> compare_model_with_twin(const ModelKernels& kernels, int repetitions);

}  // namespace resumecheck::kernels
