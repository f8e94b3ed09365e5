// What a translation unit built for one instruction set, or a device, is given to do of FP8 and of
// the model's arithmetic. As in isa_unit.h only plain structs and pointers cross this line; sizes
// and recipes have been checked and worked out before (model_tasks.h).
#pragma once

#include <cstdint>

namespace resumecheck::kernels {

// codes of values * scale, or, in DecodeTask, values of codes
struct CastTask {
  std::int64_t count = 0;
  bool e5m2 = false;
  float scale = 1;
  const float* values = nullptr;
  std::uint8_t* codes = nullptr;
};

struct DecodeTask {
  std::int64_t count = 0;
  bool e5m2 = false;
  const std::uint8_t* codes = nullptr;
  float* values = nullptr;
};

struct AmaxTask {
  std::int64_t count = 0;
  const float* values = nullptr;
  std::uint32_t* tile_maxima = nullptr;  // [amax_tiles(count)]
};
constexpr std::int64_t amax_tile = 4096;
constexpr std::int64_t amax_tiles(std::int64_t count) {
  return (count + amax_tile - 1) / amax_tile;
}

struct ScalingTask {
  std::int64_t columns = 0, rows = 0;
  bool fused = true, most_recent = false;
  float fp8_max = 0;
  float fused_numerator = 0;       // fp8_max * 2^-margin
  float unfused_divisor = 1;       // 2^margin
  const float* reduced = nullptr;  // [columns]
  float* history = nullptr;        // [rows][columns]
  float* scale = nullptr;
  float* scale_inv = nullptr;  // null: not kept
};

// As ChunkedProduct; the sums go to [chunks of the range][rows][columns].
struct ProductTask {
  std::int64_t rows = 0, columns = 0, inner = 0;
  int first_chunk = 0, chunks = 0;
  const float* left = nullptr;
  const float* right = nullptr;
  std::int64_t left_row = 0, left_inner = 0, right_column = 0, right_inner = 0;
  float* sums = nullptr;
};

struct ChunkAdditionTask {
  std::int64_t count = 0;
  const float* chunk_sums = nullptr;  // [24][count]
  float* sums = nullptr;
};

struct EpilogueTask {
  std::int64_t rows = 0, columns = 0;
  bool scaled = false;
  float scale_inv1 = 1, scale_inv2 = 1;
  const float* bias = nullptr;      // null: none
  const float* residual = nullptr;  // null: none
  const float* sums = nullptr;
  float* out = nullptr;
};

struct LayerNormTask {
  std::int64_t rows = 0, width = 0;
  const float* x = nullptr;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float* h = nullptr;
  float* normalised = nullptr;
  float* rstd = nullptr;  // [rows]
};

struct LayerNormBackwardTask {
  std::int64_t rows = 0, width = 0;
  const float* dh = nullptr;
  const float* normalised = nullptr;
  const float* rstd = nullptr;
  const float* gamma = nullptr;
  const float* dy = nullptr;
  float* dx = nullptr;
  float* dgamma = nullptr;  // [rows][width]
};

struct ReluTask {
  std::int64_t count = 0;
  const float* a = nullptr;
  float* r = nullptr;
};

struct ReluBackwardTask {
  std::int64_t count = 0;
  const float* a = nullptr;
  const float* dr = nullptr;
  float* da = nullptr;
};

struct LossTask {
  std::int64_t rows = 0, width = 0;
  const float* y = nullptr;
  const float* target = nullptr;
  float* d = nullptr;
  float* loss = nullptr;  // [rows]
};

struct ModelUnit {
  void (*cast)(const CastTask&);
  void (*decode)(const DecodeTask&);
  void (*amax)(const AmaxTask&);
  void (*update_scaling)(const ScalingTask&);
  void (*product)(const ProductTask&);
  void (*add_chunks)(const ChunkAdditionTask&);
  void (*epilogue)(const EpilogueTask&);
  void (*layernorm)(const LayerNormTask&);
  void (*layernorm_backward)(const LayerNormBackwardTask&);
  void (*relu)(const ReluTask&);
  void (*relu_backward)(const ReluBackwardTask&);
  void (*loss)(const LossTask&);
};

}  // namespace resumecheck::kernels
