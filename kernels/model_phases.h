// The pieces of layernorm_mlp as phases (phases.h), divided over teams as in fp8_phases.h. A sum is
// added by one thread from its first index to its last, and chunk sums from the first to the last
// chunk; nothing here may add in another order, or in more precision, however much faster that is.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/fp8_phases.h"
#include "kernels/model_unit.h"
#include "kernels/phases.h"

namespace resumecheck::kernels {
namespace {

constexpr int chunks_of_a_sum = 24;

RESUMECHECK_HOST_DEVICE inline std::int64_t chunk_start(std::int64_t n, std::int64_t chunk) {
  return chunk * n / chunks_of_a_sum;
}

// ---- Products and their epilogue ---------------------------------------------------------------

struct ProductPhase {
  ProductTask task;
  std::int64_t start;  // the team's first sum
  RESUMECHECK_PHASE void operator()(int, int i) const {
    const std::int64_t index = start + i;
    const std::int64_t matrix = task.rows * task.columns;
    const std::int64_t chunk = task.first_chunk + index / matrix;
    const std::int64_t row = index % matrix / task.columns, column = index % task.columns;
    const std::int64_t stored_from = chunk_start(task.inner, task.first_chunk);
    const std::int64_t from = chunk_start(task.inner, chunk) - stored_from;
    const std::int64_t to = chunk_start(task.inner, chunk + 1) - stored_from;
    const float* left = task.left + row * task.left_row;
    const float* right = task.right + column * task.right_column;
    float sum = 0.0F;
    for (std::int64_t k = from; k < to; ++k) {
      const float product = left[k * task.left_inner] * right[k * task.right_inner];
      sum = sum + product;
    }
    task.sums[index] = canonical(sum);
  }
};

// Few sums a team: each of them is a loop.
RESUMECHECK_HOST_DEVICE inline std::int64_t sums_of(const ProductTask& task) {
  return task.chunks * task.rows * task.columns;
}

inline std::int64_t teams_of(const ProductTask& task) {
  return blocks_of(sums_of(task), threads_per_block);
}

template <class Team>
RESUMECHECK_PHASE void run_team(const Team& team, const ProductTask& task, std::int64_t index,
                                TeamMemory&) {
  team.template elements<threads_per_block>(
      elements_of_block(sums_of(task), threads_per_block, index),
      ProductPhase{task, index * threads_per_block});
}

struct ChunkAdditionPhase {
  const float* chunk_sums;
  std::int64_t count;
  float* sums;
  RESUMECHECK_PHASE void operator()(int, int i) const {
    float sum = 0.0F;
    for (int chunk = 0; chunk < chunks_of_a_sum; ++chunk) sum = sum + chunk_sums[chunk * count + i];
    sums[i] = canonical(sum);
  }
};

inline std::int64_t teams_of(const ChunkAdditionTask& task) {
  return blocks_of(task.count, element_tile);
}

template <class Team>
RESUMECHECK_PHASE void run_team(const Team& team, const ChunkAdditionTask& task, std::int64_t index,
                                TeamMemory&) {
  const std::int64_t start = index * element_tile;
  team.template elements<threads_per_block>(
      elements_of_block(task.count, element_tile, index),
      ChunkAdditionPhase{task.chunk_sums + start, task.count, task.sums + start});
}

struct EpiloguePhase {
  EpilogueTask task;
  std::int64_t start;
  RESUMECHECK_PHASE void operator()(int, int i) const {
    const std::int64_t index = start + i;
    float value = task.sums[index];
    if (task.scaled) value = value * task.scale_inv1 * task.scale_inv2;
    if (task.bias != nullptr) value = value + task.bias[index % task.columns];
    if (task.residual != nullptr) value = task.residual[index] + value;
    task.out[index] = canonical(value);
  }
};

inline std::int64_t teams_of(const EpilogueTask& task) {
  return blocks_of(task.rows * task.columns, element_tile);
}

template <class Team>
RESUMECHECK_PHASE void run_team(const Team& team, const EpilogueTask& task, std::int64_t index,
                                TeamMemory&) {
  team.template elements<threads_per_block>(
      elements_of_block(task.rows * task.columns, element_tile, index),
      EpiloguePhase{task, index * element_tile});
}

// ---- LayerNorm: one team a row ------------------------------------------------------------------

RESUMECHECK_PHASE float sum_of_chunks(const float* chunks) {
  float sum = 0.0F;
  for (int chunk = 0; chunk < chunks_of_a_sum; ++chunk) sum = sum + chunks[chunk];
  return sum;
}

// A thread a chunk: chunks[chunk] = the sum of its terms.
template <class Term>
struct ChunkSumPhase {
  std::int64_t width;
  Term term;
  float* chunks;
  RESUMECHECK_PHASE void operator()(int chunk) const {
    const std::int64_t to = chunk_start(width, chunk + 1);
    float sum = 0.0F;
    for (std::int64_t i = chunk_start(width, chunk); i < to; ++i) sum = sum + term(i);
    chunks[chunk] = sum;
  }
};

struct ValueTerm {
  const float* values;
  RESUMECHECK_PHASE float operator()(std::int64_t i) const { return values[i]; }
};

struct SquaredDeviationTerm {
  const float* x;
  const float* mean;
  RESUMECHECK_PHASE float operator()(std::int64_t i) const {
    const float deviation = x[i] - *mean;
    return deviation * deviation;
  }
};

struct MeanPhase {
  const float* chunks;
  std::int64_t width;
  float* mean;
  RESUMECHECK_PHASE void operator()(int) const {
    *mean = sum_of_chunks(chunks) / static_cast<float>(width);
  }
};

struct RstdPhase {
  const float* chunks;
  std::int64_t width;
  float* rstd;
  RESUMECHECK_PHASE void operator()(int) const {
    constexpr float eps = 1.0F / 65536.0F;
    const float variance = sum_of_chunks(chunks) / static_cast<float>(width);
    *rstd = canonical(1.0F / sqrtf(variance + eps));
  }
};

struct NormalisePhase {
  const float* x;
  const float* gamma;
  const float* beta;
  const float* mean;
  const float* rstd;
  float* h;
  float* normalised;
  RESUMECHECK_PHASE void operator()(int, int i) const {
    const float value = (x[i] - *mean) * *rstd;
    normalised[i] = canonical(value);
    h[i] = canonical(value * gamma[i] + beta[i]);
  }
};

inline std::int64_t teams_of(const LayerNormTask& task) { return task.rows; }

template <class Team>
RESUMECHECK_PHASE void run_team(const Team& team, const LayerNormTask& task, std::int64_t row,
                                TeamMemory& memory) {
  const float* x = task.x + row * task.width;
  float* mean = memory.means;
  float* rstd = task.rstd + row;
  team.threads(chunks_of_a_sum,
               ChunkSumPhase<ValueTerm>{task.width, ValueTerm{x}, memory.chunks[0]});
  team.threads(1, MeanPhase{memory.chunks[0], task.width, mean});
  team.threads(chunks_of_a_sum, ChunkSumPhase<SquaredDeviationTerm>{
                                    task.width, SquaredDeviationTerm{x, mean}, memory.chunks[0]});
  team.threads(1, RstdPhase{memory.chunks[0], task.width, rstd});
  team.template elements<threads_per_block>(
      static_cast<int>(task.width),
      NormalisePhase{x, task.gamma, task.beta, mean, rstd, task.h + row * task.width,
                     task.normalised + row * task.width});
}

struct GradientTerm {
  const float* dh;
  const float* gamma;
  RESUMECHECK_PHASE float operator()(std::int64_t i) const { return dh[i] * gamma[i]; }
};

struct GradientTimesNormalisedTerm {
  GradientTerm gradient;
  const float* normalised;
  RESUMECHECK_PHASE float operator()(std::int64_t i) const { return gradient(i) * normalised[i]; }
};

struct LayerNormBackwardPhase {
  GradientTerm gradient;
  const float* normalised;
  const float* rstd;
  const float* means;  // of the gradient, and of the gradient times normalised
  const float* dy;
  float* dx;
  float* dgamma;
  RESUMECHECK_PHASE void operator()(int, int i) const {
    const float centred = gradient(i) - means[0];
    const float along = normalised[i] * means[1];
    dx[i] = canonical(dy[i] + *rstd * (centred - along));
    dgamma[i] = canonical(gradient.dh[i] * normalised[i]);
  }
};

inline std::int64_t teams_of(const LayerNormBackwardTask& task) { return task.rows; }

template <class Team>
RESUMECHECK_PHASE void run_team(const Team& team, const LayerNormBackwardTask& task,
                                std::int64_t row, TeamMemory& memory) {
  const std::int64_t start = row * task.width;
  const GradientTerm gradient = {task.dh + start, task.gamma};
  const float* normalised = task.normalised + start;
  team.threads(chunks_of_a_sum,
               ChunkSumPhase<GradientTerm>{task.width, gradient, memory.chunks[0]});
  team.threads(chunks_of_a_sum, ChunkSumPhase<GradientTimesNormalisedTerm>{
                                    task.width, GradientTimesNormalisedTerm{gradient, normalised},
                                    memory.chunks[1]});
  team.threads(1, MeanPhase{memory.chunks[0], task.width, memory.means});
  team.threads(1, MeanPhase{memory.chunks[1], task.width, memory.means + 1});
  team.template elements<threads_per_block>(
      static_cast<int>(task.width),
      LayerNormBackwardPhase{gradient, normalised, task.rstd + row, memory.means, task.dy + start,
                             task.dx + start, task.dgamma + start});
}

// ---- Squared ReLU -------------------------------------------------------------------------------

RESUMECHECK_PHASE float rectified(float a) { return a > 0.0F || a != a ? a : 0.0F; }

struct ReluPhase {
  const float* a;
  float* r;
  RESUMECHECK_PHASE void operator()(int, int i) const {
    const float m = rectified(a[i]);
    r[i] = canonical(m * m);
  }
};

struct ReluBackwardPhase {
  const float* a;
  const float* dr;
  float* da;
  RESUMECHECK_PHASE void operator()(int, int i) const {
    const float slope = 2.0F * rectified(a[i]);
    da[i] = canonical(slope * dr[i]);
  }
};

inline std::int64_t teams_of(const ReluTask& task) { return blocks_of(task.count, element_tile); }

template <class Team>
RESUMECHECK_PHASE void run_team(const Team& team, const ReluTask& task, std::int64_t index,
                                TeamMemory&) {
  const std::int64_t start = index * element_tile;
  team.template elements<threads_per_block>(elements_of_block(task.count, element_tile, index),
                                            ReluPhase{task.a + start, task.r + start});
}

inline std::int64_t teams_of(const ReluBackwardTask& task) {
  return blocks_of(task.count, element_tile);
}

template <class Team>
RESUMECHECK_PHASE void run_team(const Team& team, const ReluBackwardTask& task, std::int64_t index,
                                TeamMemory&) {
  const std::int64_t start = index * element_tile;
  team.template elements<threads_per_block>(
      elements_of_block(task.count, element_tile, index),
      ReluBackwardPhase{task.a + start, task.dr + start, task.da + start});
}

// ---- Loss: a team a sample ----------------------------------------------------------------------

struct DifferencePhase {
  const float* y;
  const float* target;
  float* d;
  RESUMECHECK_PHASE void operator()(int, int i) const { d[i] = canonical(y[i] - target[i]); }
};

struct SampleLossPhase {
  const float* d;
  std::int64_t width;
  float* loss;
  RESUMECHECK_PHASE void operator()(int) const {
    float sum = 0.0F;
    for (std::int64_t i = 0; i < width; ++i) {
      const float square = d[i] * d[i];
      sum = sum + square * 0.5F;
    }
    *loss = canonical(sum);
  }
};

inline std::int64_t teams_of(const LossTask& task) { return task.rows; }

template <class Team>
RESUMECHECK_PHASE void run_team(const Team& team, const LossTask& task, std::int64_t row,
                                TeamMemory&) {
  const std::int64_t start = row * task.width;
  float* d = task.d + start;
  team.template elements<threads_per_block>(
      static_cast<int>(task.width), DifferencePhase{task.y + start, task.target + start, d});
  team.threads(1, SampleLossPhase{d, task.width, task.loss + row});
}

}  // namespace
}  // namespace resumecheck::kernels
