// A block of the model layernorm_mlp, y = x + fc2(squared_relu(fc1(LayerNorm(x)))), forward and
// backward on some of the 24 samples, put together from model.h. What a sample gives to the
// gradients is handed out sample by sample, and a sum over hidden features that ranks have divided
// among them is gathered by chunks: a rank that added its own part first would give each mesh other
// bits.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/model.h"

namespace resumecheck::kernels {

struct BlockShape {
  std::int64_t width = 24, hidden = 48;
  ChunkRange held = {};  // of `hidden`: what this rank computes of it

  std::int64_t held_hidden() const {
    return chunk_begin(hidden, held.last) - chunk_begin(hidden, held.first);
  }
};

// As fp32 (bf16 widened; of a master its rounding to bf16, widened). held: held_hidden().
struct BlockParameters {
  const float* norm_weight = nullptr;  // [width]
  const float* norm_bias = nullptr;    // [width]
  const float* fc1_weight = nullptr;   // [held][width]
  const float* fc1_bias = nullptr;     // [held]
  const float* fc2_weight = nullptr;   // [width][held]
  const float* fc2_bias = nullptr;     // [width]
};

// What a pass through a block is given beside its input.
struct BlockPass {
  const float* dropout = nullptr;  // [rows][held]: factors of fc2's input; null: none
  // The chunk sums of the held chunks [held chunks][count] become those of all 24 [24][count].
  // Unset where this rank holds all of them.
  std::function<void(std::vector<float>& chunk_sums)> gather;
};

// Columns of an FP8 module's state, as Transformer Engine numbers them; the others stay initial.
constexpr int forward_columns = 6, backward_columns = 4;
constexpr int fc1_input = 0, fc1_weight = 1, fc2_input = 3, fc2_weight = 4;  // forward
constexpr int fc1_output_gradient = 0, fc2_output_gradient = 2;              // backward

// The FP8 state that a step reads, and what it finds. The maxima are raised, never lowered: a
// caller clears them before the first micro-batch of a step and takes their maximum over ranks
// after the last.
struct BlockScaling {
  Fp8Format forward = Fp8Format::e4m3, backward = Fp8Format::e5m2;
  const float* scale_forward = nullptr;      // [6]
  const float* scale_inv_forward = nullptr;  // [6]
  const float* scale_backward = nullptr;     // [4]
  const float* scale_inv_backward = nullptr;
  std::uint32_t* amax_forward = nullptr;   // [6], bits
  std::uint32_t* amax_backward = nullptr;  // [4], bits
};

// What the backward needs of the forward. Operands are what the GEMMs multiplied: with FP8 the
// decoded codes.
struct BlockActivations {
  std::int64_t rows = 0;
  std::vector<float> normalised, rstd;          // [rows][width], [rows]
  std::vector<float> fc1_operand, fc2_operand;  // [rows][width], [rows][held]
  std::vector<float> fc1_weight, fc2_weight;    // operands too
  std::vector<float> a;                         // [rows][held], before the squared ReLU
};

// Of each sample, [rows][elements of the parameter that are held]. Gathered over ranks and
// micro-batches in the order of the samples, add_samples makes the gradient of them.
struct BlockContributions {
  std::vector<float> norm_weight, norm_bias, fc1_weight, fc1_bias, fc2_weight, fc2_bias;
};

// scaling null: no FP8. x, y: [rows][width].
BlockActivations forward_block(const ModelKernels& kernels, const BlockShape& shape,
                               const BlockParameters& parameters, const BlockScaling* scaling,
                               const float* x, std::int64_t rows, float* y,
                               const BlockPass& pass = {});
// dy: [rows][width], of the block's output; dx of its input.
BlockContributions backward_block(const ModelKernels& kernels, const BlockShape& shape,
                                  const BlockParameters& parameters, const BlockScaling* scaling,
                                  const BlockActivations& activations, const float* dy, float* dx,
                                  const BlockPass& pass = {});

// gradient [count] of the contributions [24][count], unless they are of a weight: those are sums of
// products of operands, and take their scales only when they are whole.
void add_samples(const ModelKernels& kernels, const float* contributions, std::int64_t count,
                 float* gradient);
// Of fc1.weight, or of fc2.weight where `second`.
void add_weight_samples(const ModelKernels& kernels, const BlockShape& shape,
                        const BlockScaling* scaling, bool second, const float* contributions,
                        float* gradient);

}  // namespace resumecheck::kernels
