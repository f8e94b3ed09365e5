// From what a caller asks of fp8.h, delayed_scaling.h and model.h to tasks, for the host and for
// devices alike. Checks its arguments here, once: everything below trusts its pointers and counts.
#pragma once

#include "kernels/model.h"
#include "kernels/model_unit.h"

namespace resumecheck::kernels {

// All throw std::invalid_argument on what makes no sense.
CastTask cast_task(const float* values, std::int64_t count, float scale, Fp8Format format,
                   std::uint8_t* codes);
DecodeTask decode_task(const std::uint8_t* codes, std::int64_t count, Fp8Format format,
                       float* values);
AmaxTask amax_task(const float* values, std::int64_t count,
                   std::vector<std::uint32_t>& tile_maxima);
ScalingTask scaling_task(const DelayedScaling& recipe, Fp8Format format, const float* reduced,
                         const ScalingState& state);
ProductTask product_task(const ChunkedProduct& product, float* chunk_sums);
ChunkAdditionTask chunk_addition_task(const float* chunk_sums, std::int64_t count, float* sums);
EpilogueTask epilogue_task(const LinearEpilogue& epilogue, const float* sums, float* out);
LayerNormTask layernorm_task(const float* x, const float* gamma, const float* beta,
                             std::int64_t rows, std::int64_t width, float* h, float* normalised,
                             float* rstd);
LayerNormBackwardTask layernorm_backward_task(const float* dh, const float* normalised,
                                              const float* rstd, const float* gamma,
                                              const float* dy, std::int64_t rows,
                                              std::int64_t width, float* dx, float* dgamma);
ReluTask relu_task(const float* a, std::int64_t count, float* r);
ReluBackwardTask relu_backward_task(const float* a, const float* dr, std::int64_t count, float* da);
LossTask loss_task(const float* y, const float* target, std::int64_t rows, std::int64_t width,
                   float* d, float* loss);

// How many elements a product reads of each operand, from its pointer on: what a copy must hold.
std::int64_t left_extent(const ProductTask& task);
std::int64_t right_extent(const ProductTask& task);

// The functions of model.h on a given unit.
ModelKernels model_kernels_with(const ModelUnit& unit, std::string name);

}  // namespace resumecheck::kernels
