// The arithmetic of the model layernorm_mlp in pieces that any division of the work can be put
// together from. Every sum is 24 logical chunks, each added in ascending index, and then the chunk
// sums added in ascending order: a rank computes whole chunks, ranks exchange chunk sums, and
// whoever adds them adds all of them in order. A partial sum of anything else would give each mesh
// its own bits.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/adamw.h"
#include "kernels/delayed_scaling.h"
#include "kernels/fp8.h"

namespace resumecheck::kernels {

constexpr int sum_chunks = 24;

// Chunk i of a sum over n indices is [chunk_begin(n, i), chunk_begin(n, i + 1)).
constexpr std::int64_t chunk_begin(std::int64_t n, int chunk) { return chunk * n / sum_chunks; }

struct ChunkRange {
  int first = 0, last = sum_chunks;  // [first, last) of the 24
  int count() const { return last - first; }
};

// Sums over k of f(left(row, k) * right(column, k)), k in the chunks `range` of [0, inner).
// Element (row, k) of left is left[row * left_row + k * left_inner], k counted from the first of
// the range: a rank that owns some chunks stores only those. The three GEMMs of a linear layer:
struct ChunkedProduct {
  std::int64_t rows = 0, columns = 0;
  std::int64_t inner = 0;  // of the whole sum, all 24 chunks
  ChunkRange range;
  const float* left = nullptr;
  const float* right = nullptr;
  std::int64_t left_row = 0, left_inner = 0;
  std::int64_t right_column = 0, right_inner = 0;
};

// sums [rows][outputs] over inputs: x [rows][inputs of the range], weight [outputs][inputs of the
// range].
ChunkedProduct forward_product(const float* x, const float* weight, std::int64_t rows,
                               std::int64_t outputs, std::int64_t inputs, ChunkRange range = {});
// sums [rows][inputs] over outputs: dy [rows][outputs of the range], weight [outputs of the
// range][inputs].
ChunkedProduct input_gradient_product(const float* dy, const float* weight, std::int64_t rows,
                                      std::int64_t outputs, std::int64_t inputs,
                                      ChunkRange range = {});
// sums [outputs][inputs] over samples: dy [samples of the range][outputs], x [samples of the
// range][inputs].
ChunkedProduct weight_gradient_product(const float* dy, const float* x, std::int64_t samples,
                                       std::int64_t outputs, std::int64_t inputs,
                                       ChunkRange range = {});

// What becomes of whole sums [rows][columns]:
//   f(f(sum * scale_inv1) * scale_inv2) where `scaled`, the sum otherwise; then f(.. +
//   bias[column]) and f(residual + ..) where there are these.
struct LinearEpilogue {
  std::int64_t rows = 0, columns = 0;
  bool scaled = false;  // the operands were FP8: scale_inv1 of x (or dy), scale_inv2 of the other
  float scale_inv1 = 1, scale_inv2 = 1;
  const float* bias = nullptr;      // [columns]
  const float* residual = nullptr;  // [rows][columns]
};

// One build of the kernels: an instruction set, or a device. All operands are fp32 (codes are
// decoded first, exactly), every NaN that is written is 0x7fc00000, and outputs may not overlap
// inputs. std::invalid_argument where sizes make no sense.
struct ModelKernels {
  std::string name;

  // fp8.h and delayed_scaling.h
  std::function<void(const float* values, std::int64_t count, float scale, Fp8Format format,
                     std::uint8_t* codes)>
      quantise;
  std::function<void(const std::uint8_t* codes, std::int64_t count, Fp8Format format,
                     float* values)>
      dequantise;
  std::function<std::uint32_t(const float* values, std::int64_t count)> amax;
  std::function<void(const DelayedScaling& recipe, Fp8Format format, const float* reduced,
                     const ScalingState& state)>
      update_scaling;

  // chunk_sums: [chunks of the range][rows][columns]
  std::function<void(const ChunkedProduct& product, float* chunk_sums)> product_chunk_sums;
  // sums [count] of chunk_sums [24][count]: from +0.0, in ascending order. Gathered values of the
  // 24 samples are chunk sums too (of db, dgamma, dbeta and the loss).
  std::function<void(const float* chunk_sums, std::int64_t count, float* sums)> add_chunk_sums;
  std::function<void(const LinearEpilogue& epilogue, const float* sums, float* out)> finish_linear;

  // x [rows][width] -> h, normalised (xhat) [rows][width] and rstd [rows]; eps is 2^-16.
  std::function<void(const float* x, const float* gamma, const float* beta, std::int64_t rows,
                     std::int64_t width, float* h, float* normalised, float* rstd)>
      layernorm;
  // dh, normalised and dy (of the block's output, for the residual) [rows][width] -> dx = f(dy +
  // LayerNorm's) and the samples' parts f(dh * xhat) of dgamma, both [rows][width]. dbeta's are dh.
  std::function<void(const float* dh, const float* normalised, const float* rstd,
                     const float* gamma, const float* dy, std::int64_t rows, std::int64_t width,
                     float* dx, float* dgamma)>
      layernorm_backward;

  // r = f(m * m), m = a > 0 ? a : +0.0, a NaN stays one.
  std::function<void(const float* a, std::int64_t count, float* r)> squared_relu;
  // da = f(f(2 m) * dr)
  std::function<void(const float* a, const float* dr, std::int64_t count, float* da)>
      squared_relu_backward;
  // d = f(y - target) [rows][width], which is dL/dy; loss [rows]: the chunk sum of each sample.
  std::function<void(const float* y, const float* target, std::int64_t rows, std::int64_t width,
                     float* d, float* loss)>
      squared_error;
};

ModelKernels host_model_kernels(Isa isa);
// Through host buffers, equal bits. In programs that link resumecheck_kernels_device; every call
// throws std::runtime_error where that was built without CUDA.
ModelKernels device_model_kernels();

}  // namespace resumecheck::kernels
