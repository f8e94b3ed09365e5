// AdamW as phases of a thread block (phases.h). Every operation is one IEEE rounding; where two are
// fused, fmaf says so. A block of moments is requantised by the largest magnitude of all of it,
// which is why there is a barrier between the update and the codes.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/float8.h"
#include "kernels/isa_unit.h"
#include "kernels/phases.h"

namespace resumecheck::kernels {
namespace {

// ---- Single values -------------------------------------------------------------------------

RESUMECHECK_PHASE float fused(float a, float b, float c) { return fmaf(a, b, c); }

struct Fp32Values {
  using Stored = float;
  RESUMECHECK_PHASE static float load(const float* values, int i) { return values[i]; }
  RESUMECHECK_PHASE static void store(float* values, int i, float value) {
    values[i] = canonical(value);
  }
};

struct Bf16Values {
  using Stored = std::uint16_t;
  RESUMECHECK_PHASE static float load(const std::uint16_t* values, int i) {
    return widen_bf16(values[i]);
  }
  RESUMECHECK_PHASE static void store(std::uint16_t* values, int i, float value) {
    values[i] = round_to_bf16(value);
  }
};

// `yes` where the mask is all ones, `no` where it is 0. On bits, because g++ does not vectorise a
// choice by a condition that is the same for all elements.
RESUMECHECK_PHASE float chosen(std::uint32_t mask, float yes, float no) {
  return float_of((bits_of(yes) & mask) | (bits_of(no) & ~mask));
}

// Linear interpolation from a moment towards the gradient, multiplication and addition fused. Which
// of the two is the addend decides the last bit; `mask` is all ones where it is the moment.
struct FusedLerp {
  RESUMECHECK_PHASE static float lerp(float moment, float to, float weight, std::uint32_t mask) {
    return fused(weight, to - moment, chosen(mask, moment, to));
  }
};

// The same with two roundings, as compilers leave it that may not contract.
struct UnfusedLerp {
  RESUMECHECK_PHASE static float lerp(float moment, float to, float weight, std::uint32_t mask) {
    return weight * (to - moment) + chosen(mask, moment, to);
  }
};

// ---- A parameter: what a step reads, and how its result is stored ---------------------------

struct NearestEven {
  RESUMECHECK_PHASE static NearestEven at(const ParamTask&, std::int64_t) { return {}; }
  RESUMECHECK_PHASE std::uint16_t operator()(int, float value) const {
    return round_to_bf16(value);
  }
};

struct Stochastic {
  const std::uint16_t* bits;
  RESUMECHECK_PHASE static Stochastic at(const ParamTask& task, std::int64_t start) {
    return {task.rounding + start};
  }
  RESUMECHECK_PHASE std::uint16_t operator()(int i, float value) const {
    return round_to_bf16_by(value, bits[i]);
  }
};

struct Fp32Param {
  using Values = Fp32Values;
  float* param;
  RESUMECHECK_PHASE static Fp32Param at(const ParamTask& task, std::int64_t start) {
    return {static_cast<float*>(task.param) + start};
  }
  RESUMECHECK_PHASE float load(int i) const { return param[i]; }
  RESUMECHECK_PHASE void store(int i, float value) const { param[i] = canonical(value); }
};

template <class Rounding>
struct Bf16Param {
  using Values = Bf16Values;
  std::uint16_t* param;
  Rounding rounding;
  RESUMECHECK_PHASE static Bf16Param at(const ParamTask& task, std::int64_t start) {
    return {static_cast<std::uint16_t*>(task.param) + start, Rounding::at(task, start)};
  }
  RESUMECHECK_PHASE float load(int i) const { return widen_bf16(param[i]); }
  RESUMECHECK_PHASE void store(int i, float value) const { param[i] = rounding(i, value); }
};

template <class Rounding>
struct MasterParam {
  using Values = Bf16Values;
  std::uint16_t* param;
  float* master;
  Rounding rounding;
  RESUMECHECK_PHASE static MasterParam at(const ParamTask& task, std::int64_t start) {
    return {static_cast<std::uint16_t*>(task.param) + start, task.master + start,
            Rounding::at(task, start)};
  }
  RESUMECHECK_PHASE float load(int i) const { return master[i]; }
  RESUMECHECK_PHASE void store(int i, float value) const {
    master[i] = canonical(value);
    param[i] = rounding(i, value);
  }
};

template <class Values>
RESUMECHECK_PHASE const typename Values::Stored* gradient_at(const ParamTask& task,
                                                             std::int64_t start) {
  return static_cast<const typename Values::Stored*>(task.grad) + start;
}

// use(Arithmetic, Param) for what the task says.
template <class Arithmetic, class Use>
void by_param(const ParamTask& task, const Use& use) {
  if (!task.bf16)
    use(Arithmetic{}, Fp32Param{});
  else if (task.master != nullptr)
    task.rounding != nullptr ? use(Arithmetic{}, MasterParam<Stochastic>{})
                             : use(Arithmetic{}, MasterParam<NearestEven>{});
  else
    task.rounding != nullptr ? use(Arithmetic{}, Bf16Param<Stochastic>{})
                             : use(Arithmetic{}, Bf16Param<NearestEven>{});
}

template <class Task, class Use>
void by_policies(const Task& task, const Use& use) {
  task.fused ? by_param<FusedLerp>(task.param, use) : by_param<UnfusedLerp>(task.param, use);
}

// ---- The step on one element ------------------------------------------------------------------

struct Element {
  float param, moment1, moment2;
};

template <class Arithmetic>
RESUMECHECK_PHASE Element updated(Element old, float grad, const StepScalars& s) {
  const float decayed = old.param - s.decay * old.param;
  const float moment1 = Arithmetic::lerp(old.moment1, grad, s.weight1, s.from_moment1 ? ~0U : 0U);
  const float moment2 =
      Arithmetic::lerp(old.moment2, grad * grad, s.weight2, s.from_moment2 ? ~0U : 0U);
  const float denominator = sqrtf(moment2) / s.bias2_sqrt + s.eps;
  const float param = decayed - (s.lr * (moment1 / s.bias1)) / denominator;
  return {param, canonical(moment1), canonical(moment2)};
}

// NaN and infinity stay, an all-zero block gets a small divisor.
RESUMECHECK_PHASE float usable_divisor(std::uint32_t absmax) {
  const float largest = canonical(float_of(absmax));
  return largest < 1e-12F ? 1e-12F : largest;
}

// ---- From a code to its entry, and from a quotient to its code --------------------------------

// The entry of a code. `zero` is 0: g++ turns a look-up into a gather only if the index is an int
// that it cannot trace back to a byte.
struct CodebookEntries {
  const float* codebook;
  std::int32_t zero;
  RESUMECHECK_PHASE float operator()(std::uint8_t code) const { return codebook[code ^ zero]; }
};

// Bits reordered so that unsigned comparison orders floats: negatives reversed, below positives.
RESUMECHECK_PHASE std::uint32_t ordered_key(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = static_cast<std::uint32_t>(static_cast<std::int32_t>(bits) >> 31);
  return bits ^ (sign | 0x80000000U);
}

// Where codes are indices, the stored scale of a block is its largest magnitude.
struct ScaleIsAbsmax {
  RESUMECHECK_PHASE static float scale_of(std::uint32_t absmax) { return usable_divisor(absmax); }
};

// One look-up: the low bits of the key carry into the code exactly from the bucket's threshold on.
template <int shift, int entries>
struct TableLookup : ScaleIsAbsmax {
  const std::uint32_t* table;
  RESUMECHECK_PHASE explicit TableLookup(const CodeMap& map) : table(map.table) {}
  RESUMECHECK_PHASE std::uint8_t operator()(float quotient) const {
    const std::uint32_t key = ordered_key(quotient);
    const std::uint32_t low = key & ((1U << shift) - 1U);
    const auto bucket = static_cast<std::int32_t>(key >> shift);
    return static_cast<std::uint8_t>((table[bucket] + low) >> shift & (entries - 1U));
  }
};

// Any sorted codebook: the largest entry not above the quotient, or the next one from the middle
// of the gap on. A NaN compares false throughout and gets code 0.
template <int entries>
struct SearchLookup : ScaleIsAbsmax {
  const float* codebook;
  RESUMECHECK_PHASE explicit SearchLookup(const CodeMap& map) : codebook(map.codebook) {}
  RESUMECHECK_PHASE std::uint8_t operator()(float quotient) const {
    std::int32_t code = 0;
    for (std::int32_t half = entries / 2; half > 0; half /= 2)
      code = codebook[code + half] <= quotient ? code + half : code;
    const std::int32_t up = code < entries - 1 ? code + 1 : entries - 1;
    const float low = codebook[code];
    return static_cast<std::uint8_t>(quotient - low >= (codebook[up] - low) * 0.5F ? up : code);
  }
};

// To nearest even, as torch converts: a NaN has code 0x7f, and so has what would round beyond 448.
struct E4m3Lookup {
  RESUMECHECK_PHASE explicit E4m3Lookup(const CodeMap&) {}
  RESUMECHECK_PHASE static float scale_of(std::uint32_t absmax) {
    return usable_divisor(absmax) / 448.0F;
  }
  RESUMECHECK_PHASE std::uint8_t operator()(float quotient) const {
    return float8_code<E4m3, NanBeyond>(quotient);
  }
};

// ---- Phases: what each thread does to its elements ------------------------------------------

struct BlockMemory {
  float* moment1;  // [elements of the block]
  float* moment2;
  std::uint32_t* partials;  // [2 * partial_maxima]
  std::uint32_t* absmax;    // [2]
};
// In words, after the moments of a whole block.
constexpr int reduction_words = 2 * partial_maxima + 2;

template <class Arithmetic, class Param>
struct UpdatePhase {
  using Values = typename Param::Values;
  Param param;
  const typename Values::Stored* grad;
  const std::uint8_t* codes1;
  const std::uint8_t* codes2;
  CodebookEntries entry1, entry2;
  float scale1, scale2;
  StepScalars scalars;
  float* moment1;
  float* moment2;
  RESUMECHECK_PHASE void operator()(int, int i) const {
    const Element old = {param.load(i), entry1(codes1[i]) * scale1, entry2(codes2[i]) * scale2};
    const Element now = updated<Arithmetic>(old, Values::load(grad, i), scalars);
    moment1[i] = now.moment1;
    moment2[i] = now.moment2;
    param.store(i, now.param);
  }
};

template <class Arithmetic, class Param, class MomentValues>
struct PlainUpdatePhase {
  using Values = typename Param::Values;
  Param param;
  const typename Values::Stored* grad;
  typename MomentValues::Stored* moment1;
  typename MomentValues::Stored* moment2;
  StepScalars scalars;
  RESUMECHECK_PHASE void operator()(int, int i) const {
    const Element old = {param.load(i), MomentValues::load(moment1, i),
                         MomentValues::load(moment2, i)};
    const Element now = updated<Arithmetic>(old, Values::load(grad, i), scalars);
    MomentValues::store(moment1, i, now.moment1);
    MomentValues::store(moment2, i, now.moment2);
    param.store(i, now.param);
  }
};

struct PartialMaximumPhase {
  const float* values;
  std::uint32_t* partials;  // [partial_maxima], one a thread
  RESUMECHECK_PHASE void operator()(int thread, int i) const {
    const std::uint32_t bits = magnitude_bits(values[i]);
    partials[thread] = bits > partials[thread] ? bits : partials[thread];
  }
};

template <class Lookup>
struct StoreScalePhase {
  const std::uint32_t* absmax;
  float* scale;
  RESUMECHECK_PHASE void operator()(int) const { *scale = Lookup::scale_of(*absmax); }
};

template <class Lookup>
struct QuantisePhase {
  const float* values;
  float scale;
  Lookup lookup;
  std::uint8_t* codes;
  RESUMECHECK_PHASE void operator()(int, int i) const { codes[i] = lookup(values[i] / scale); }
};

struct DequantisePhase {
  const std::uint8_t* codes;
  CodebookEntries entry;
  float scale;
  float* values;
  RESUMECHECK_PHASE void operator()(int, int i) const {
    values[i] = canonical(entry(codes[i]) * scale);
  }
};

// ---- A block: its phases in order -------------------------------------------------------------

template <class Team>
RESUMECHECK_PHASE void find_absmax(const Team& team, const float* values, int count,
                                   std::uint32_t* partials, std::uint32_t* absmax) {
  team.threads(partial_maxima, ClearPhase{partials});
  team.template elements<partial_maxima>(count, PartialMaximumPhase{values, partials});
  team.threads(1, MaximumPhase{partials, absmax});
}

// Called, so that whole blocks and parts share it.
template <class Arithmetic, class Param, class Team>
RESUMECHECK_CALLED void update_moments(const Team& team, const BlockTask& task, std::int64_t start,
                                       std::int64_t block, int count, const BlockMemory& memory) {
  team.template elements<threads_per_block>(
      count,
      UpdatePhase<Arithmetic, Param>{
          Param::at(task.param, start), gradient_at<typename Param::Values>(task.param, start),
          task.codes1 + start, task.codes2 + start, CodebookEntries{task.map1.codebook, task.zero},
          CodebookEntries{task.map2.codebook, task.zero}, task.scale1[block], task.scale2[block],
          task.scalars, memory.moment1, memory.moment2});
  team.threads(2 * partial_maxima, ClearPhase{memory.partials});
  team.template elements<partial_maxima>(count,
                                         PartialMaximumPhase{memory.moment1, memory.partials});
  team.template elements<partial_maxima>(
      count, PartialMaximumPhase{memory.moment2, memory.partials + partial_maxima});
  team.threads(2, MaximumPhase{memory.partials, memory.absmax});
}

template <class Lookup, class Team>
RESUMECHECK_PHASE void quantise_by(const Team& team, const float* values, int count,
                                   const std::uint32_t* absmax, const Lookup& lookup,
                                   std::uint8_t* codes, float* scale) {
  team.threads(1, StoreScalePhase<Lookup>{absmax, scale});
  team.template elements<threads_per_block>(
      count, QuantisePhase<Lookup>{values, Lookup::scale_of(*absmax), lookup, codes});
}

// The rule is the same for all threads of a team. A function of its own, called: every kind of
// update would otherwise hold every kind of look-up twice.
template <class Team>
RESUMECHECK_CALLED void quantise_values(const Team& team, const float* values, int count,
                                        const std::uint32_t* absmax, const CodeMap& map,
                                        std::uint8_t* codes, float* scale) {
  switch (map.rule) {
    case CodeRule::table8_signed:
      return quantise_by(team, values, count, absmax, TableLookup<signed_table_shift, 256>(map),
                         codes, scale);
    case CodeRule::table8_unsigned:
      return quantise_by(team, values, count, absmax, TableLookup<unsigned_table_shift, 256>(map),
                         codes, scale);
    case CodeRule::table4:
      return quantise_by(team, values, count, absmax, TableLookup<table4_shift, 16>(map), codes,
                         scale);
    case CodeRule::search8:
      return quantise_by(team, values, count, absmax, SearchLookup<256>(map), codes, scale);
    case CodeRule::search4:
      return quantise_by(team, values, count, absmax, SearchLookup<16>(map), codes, scale);
    case CodeRule::e4m3:
      return quantise_by(team, values, count, absmax, E4m3Lookup(map), codes, scale);
  }
}

// Block `index` of the task, whole: updated and requantised.
template <class Arithmetic, class Param, class Team>
RESUMECHECK_PHASE void update_block(const Team& team, const BlockTask& task, std::int64_t index,
                                    const BlockMemory& memory) {
  const std::int64_t start = index * task.block;
  const int count = elements_of_block(task.count, task.block, index);
  update_moments<Arithmetic, Param>(team, task, start, index, count, memory);
  quantise_values(team, memory.moment1, count, memory.absmax, task.map1, task.codes1 + start,
                  task.scale1 + index);
  quantise_values(team, memory.moment2, count, memory.absmax + 1, task.map2, task.codes2 + start,
                  task.scale2 + index);
}

template <class Team>
RESUMECHECK_PHASE void quantise_block(const Team& team, const QuantiseTask& task,
                                      std::int64_t index, std::uint32_t* partials,
                                      std::uint32_t* absmax) {
  const std::int64_t start = index * task.block;
  const int count = elements_of_block(task.count, task.block, index);
  find_absmax(team, task.values + start, count, partials, absmax);
  quantise_values(team, task.values + start, count, absmax, task.map, task.codes + start,
                  task.scale + index);
}

template <class Team>
RESUMECHECK_PHASE void dequantise_block(const Team& team, const DequantiseTask& task,
                                        std::int64_t index) {
  const std::int64_t start = index * task.block;
  team.template elements<threads_per_block>(
      elements_of_block(task.count, task.block, index),
      DequantisePhase{task.codes + start, CodebookEntries{task.map.codebook, task.zero},
                      task.scale[index], task.values + start});
}

// Unquantised moments have no blocks: a tile is only what one team takes at a time.
constexpr int plain_tile = 4096;

template <class Arithmetic, class Param, class MomentValues, class Team>
RESUMECHECK_PHASE void update_plain_tile(const Team& team, const PlainTask& task,
                                         std::int64_t index) {
  using Moment = typename MomentValues::Stored;
  const std::int64_t start = index * plain_tile;
  team.template elements<threads_per_block>(
      elements_of_block(task.count, plain_tile, index),
      PlainUpdatePhase<Arithmetic, Param, MomentValues>{
          Param::at(task.param, start), gradient_at<typename Param::Values>(task.param, start),
          static_cast<Moment*>(task.moment1) + start, static_cast<Moment*>(task.moment2) + start,
          task.scalars});
}

}  // namespace
}  // namespace resumecheck::kernels
