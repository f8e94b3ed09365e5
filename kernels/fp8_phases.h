// FP8 casts, the largest magnitude and delayed scaling as phases (phases.h). A task is divided over
// teams that know nothing of each other: teams_of says how many it takes, run_team does one team's
// share.
#pragma once

#include <cstdint>

#include "kernels/float8.h"
#include "kernels/model_unit.h"
#include "kernels/phases.h"

namespace resumecheck::kernels {
namespace {

// What the threads of a team share.
struct TeamMemory {
  std::uint32_t maxima[partial_maxima];
  float chunks[2][24];  // the chunk sums of two sums
  float means[2];
};

// Elements that a team takes at a time where they do not depend on each other.
constexpr std::int64_t element_tile = 4096;

// ---- Casts -------------------------------------------------------------------------------------

template <class Format>
struct CastPhase {
  const float* values;
  float scale;
  std::uint8_t* codes;
  RESUMECHECK_PHASE void operator()(int, int i) const {
    codes[i] = float8_code<Format, Saturate>(values[i] * scale);
  }
};

template <class Format>
struct DecodePhase {
  const std::uint8_t* codes;
  float* values;
  RESUMECHECK_PHASE void operator()(int, int i) const {
    values[i] = float8_value<Format>(codes[i]);
  }
};

inline std::int64_t teams_of(const CastTask& task) { return blocks_of(task.count, element_tile); }

template <class Team>
RESUMECHECK_PHASE void run_team(const Team& team, const CastTask& task, std::int64_t index,
                                TeamMemory&) {
  const std::int64_t start = index * element_tile;
  const int count = elements_of_block(task.count, element_tile, index);
  if (task.e5m2)
    team.template elements<threads_per_block>(
        count, CastPhase<E5m2>{task.values + start, task.scale, task.codes + start});
  else
    team.template elements<threads_per_block>(
        count, CastPhase<E4m3>{task.values + start, task.scale, task.codes + start});
}

inline std::int64_t teams_of(const DecodeTask& task) { return blocks_of(task.count, element_tile); }

template <class Team>
RESUMECHECK_PHASE void run_team(const Team& team, const DecodeTask& task, std::int64_t index,
                                TeamMemory&) {
  const std::int64_t start = index * element_tile;
  const int count = elements_of_block(task.count, element_tile, index);
  if (task.e5m2)
    team.template elements<threads_per_block>(
        count, DecodePhase<E5m2>{task.codes + start, task.values + start});
  else
    team.template elements<threads_per_block>(
        count, DecodePhase<E4m3>{task.codes + start, task.values + start});
}

// ---- The largest magnitude ---------------------------------------------------------------------

struct PartialAmaxPhase {
  const float* values;
  std::uint32_t* partials;  // [partial_maxima], one a thread
  RESUMECHECK_PHASE void operator()(int thread, int i) const {
    const std::uint32_t magnitude = magnitude_bits(values[i]);
    const std::uint32_t bits = magnitude > 0x7f800000U ? 0U : magnitude;
    partials[thread] = bits > partials[thread] ? bits : partials[thread];
  }
};

inline std::int64_t teams_of(const AmaxTask& task) { return amax_tiles(task.count); }

template <class Team>
RESUMECHECK_PHASE void run_team(const Team& team, const AmaxTask& task, std::int64_t index,
                                TeamMemory& memory) {
  team.threads(partial_maxima, ClearPhase{memory.maxima});
  team.template elements<partial_maxima>(
      elements_of_block(task.count, amax_tile, index),
      PartialAmaxPhase{task.values + index * amax_tile, memory.maxima});
  team.threads(1, MaximumPhase{memory.maxima, task.tile_maxima + index});
}

// ---- Delayed scaling ---------------------------------------------------------------------------

// One column of a history, and what its update finds.
struct HistoryColumn {
  float* rows;  // [count], `stride` apart
  std::int64_t count, stride;
  RESUMECHECK_PHASE float& operator[](std::int64_t row) const { return rows[row * stride]; }

  // The rows move up by one; `newest` comes last, and the running row is cleared.
  RESUMECHECK_PHASE void roll(float newest) const {
    for (std::int64_t row = 1; row + 1 < count; ++row) (*this)[row] = (*this)[row + 1];
    if (count > 1) (*this)[count - 1] = newest;
    (*this)[0] = 0.0F;
  }
};

RESUMECHECK_PHASE bool is_infinite(float value) { return magnitude_bits(value) == 0x7f800000U; }

// NaNs are ignored, as by fmaxf.
RESUMECHECK_PHASE float fused_maximum(const HistoryColumn& history, float last) {
  float amax = last > 0.0F ? last : 0.0F;
  for (std::int64_t row = 1; row < history.count; ++row)
    amax = history[row] > amax ? history[row] : amax;
  return amax;
}

// A NaN wins, as in torch.max.
RESUMECHECK_PHASE float unfused_maximum(const HistoryColumn& history) {
  float amax = history[0];
  for (std::int64_t row = 1; row < history.count; ++row) {
    const float value = history[row];
    amax = amax == amax && (value > amax || value != value) ? value : amax;
  }
  return amax;
}

RESUMECHECK_PHASE float fused_amax(const ScalingTask& task, const HistoryColumn& history,
                                   float reduced) {
  const float last = reduced != 0.0F ? reduced : history[0];
  if (!(last != 0.0F)) return 0.0F;
  const float amax = task.most_recent ? last : fused_maximum(history, last);
  history.roll(last);
  return amax;
}

RESUMECHECK_PHASE float unfused_amax(const ScalingTask& task, const HistoryColumn& history,
                                     float reduced) {
  history[0] = reduced;
  const float amax = task.most_recent ? reduced : unfused_maximum(history);
  history.roll(reduced);
  return amax;
}

struct ScalingPhase {
  ScalingTask task;
  std::int64_t start;  // the team's first column
  RESUMECHECK_PHASE void operator()(int, int i) const {
    const std::int64_t column = start + i;
    const HistoryColumn history = {task.history + column, task.rows, task.columns};
    const float reduced = task.reduced[column];
    const float amax =
        task.fused ? fused_amax(task, history, reduced) : unfused_amax(task, history, reduced);
    const float fitting = task.fused ? task.fused_numerator / amax
                                     : (1.0F / amax) * task.fp8_max / task.unfused_divisor;
    const bool usable = amax > 0.0F && !is_infinite(amax);
    const float scale = usable ? fitting : task.scale[column];
    const float kept = is_infinite(scale) ? float_of(0x7f7fffffU) : scale;
    task.scale[column] = kept;
    if (task.scale_inv != nullptr) task.scale_inv[column] = canonical(1.0F / kept);
  }
};

inline std::int64_t teams_of(const ScalingTask& task) {
  return blocks_of(task.columns, threads_per_block);
}

template <class Team>
RESUMECHECK_PHASE void run_team(const Team& team, const ScalingTask& task, std::int64_t index,
                                TeamMemory&) {
  team.template elements<threads_per_block>(
      elements_of_block(task.columns, threads_per_block, index),
      ScalingPhase{task, index * threads_per_block});
}

}  // namespace
}  // namespace resumecheck::kernels
