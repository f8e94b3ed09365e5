// The host build of the phases, included once by each isa_<name>.cpp after it has defined
// RESUMECHECK_ISA_UNIT, the name of its table. Everything but that table has internal linkage: a
// function shared between instruction sets would be the wrong one for one of them. A test may bring
// a team of its own as RESUMECHECK_TEAM.
#include "kernels/adamw_phases.h"

namespace resumecheck::kernels {
namespace {

#ifndef RESUMECHECK_TEAM
#define RESUMECHECK_TEAM LoopTeam
// Threads of one phase never depend on each other, which is what ivdep tells the compiler.
struct LoopTeam {
  template <int stride, class Phase>
  RESUMECHECK_PHASE void elements(int count, Phase phase) const {
    int base = 0;
    for (; base + stride <= count; base += stride) {
#pragma GCC ivdep
      for (int thread = 0; thread < stride; ++thread) phase(thread, base + thread);
    }
    const int rest = count - base;
#pragma GCC ivdep
    for (int thread = 0; thread < rest; ++thread) phase(thread, base + thread);
  }
  template <class Phase>
  RESUMECHECK_PHASE void threads(int active, Phase phase) const {
#pragma GCC ivdep
    for (int thread = 0; thread < active; ++thread) phase(thread);
  }
};
#endif

template <class Arithmetic, class Values, class Lookup1, class Lookup2>
void update_blocks_by(const BlockTask& task, float* scratch, Lookup1 lookup1, Lookup2 lookup2) {
  std::uint32_t words[reduction_words];
  const BlockMemory memory = {scratch, scratch + task.block, words, words + 2 * partial_maxima};
  const std::int64_t blocks = blocks_of(task.count, task.block);
  for (std::int64_t index = 0; index < blocks; ++index)
    update_block<Arithmetic, Values>(RESUMECHECK_TEAM{}, task, index, memory, lookup1, lookup2);
}

template <class Values>
void update_blocks_of(const BlockTask& task, float* scratch) {
  const bool by_table = task.map1.table != nullptr && task.map1.is_signed &&
                        task.map2.table != nullptr && !task.map2.is_signed;
  if (by_table)
    update_blocks_by<FusedLerp, Values>(task, scratch, SignedTableLookup{task.map1.table},
                                        UnsignedTableLookup{task.map2.table});
  else
    update_blocks_by<FusedLerp, Values>(task, scratch, SearchLookup{task.map1.codebook},
                                        SearchLookup{task.map2.codebook});
}

void update_blocks(const BlockTask& task, float* scratch) {
  task.bf16 ? update_blocks_of<Bf16Values>(task, scratch)
            : update_blocks_of<Fp32Values>(task, scratch);
}

template <class Values>
void update_part_of(const BlockTask& task, float* moment1, float* moment2, std::uint32_t* absmax) {
  std::uint32_t partials[2 * partial_maxima];
  update_moments<FusedLerp, Values>(RESUMECHECK_TEAM{}, task, 0, 0, static_cast<int>(task.count),
                                    BlockMemory{moment1, moment2, partials, absmax});
}

void update_part(const BlockTask& task, float* moment1, float* moment2, std::uint32_t* absmax) {
  task.bf16 ? update_part_of<Bf16Values>(task, moment1, moment2, absmax)
            : update_part_of<Fp32Values>(task, moment1, moment2, absmax);
}

template <class Lookup>
void quantise_part_by(const QuantiseTask& task, std::uint32_t absmax, Lookup lookup) {
  quantise_values(RESUMECHECK_TEAM{}, task.values, static_cast<int>(task.count), &absmax, lookup,
                  task.codes, task.scale);
}

template <class Lookup>
void quantise_blocks_by(const QuantiseTask& task, Lookup lookup) {
  std::uint32_t words[partial_maxima + 1];
  const std::int64_t blocks = blocks_of(task.count, task.block);
  for (std::int64_t index = 0; index < blocks; ++index)
    quantise_block(RESUMECHECK_TEAM{}, task, index, words, words + partial_maxima, lookup);
}

void quantise_part(const QuantiseTask& task, std::uint32_t absmax) {
  if (task.map.table == nullptr)
    quantise_part_by(task, absmax, SearchLookup{task.map.codebook});
  else if (task.map.is_signed)
    quantise_part_by(task, absmax, SignedTableLookup{task.map.table});
  else
    quantise_part_by(task, absmax, UnsignedTableLookup{task.map.table});
}

void quantise_blocks(const QuantiseTask& task) {
  if (task.map.table == nullptr)
    quantise_blocks_by(task, SearchLookup{task.map.codebook});
  else if (task.map.is_signed)
    quantise_blocks_by(task, SignedTableLookup{task.map.table});
  else
    quantise_blocks_by(task, UnsignedTableLookup{task.map.table});
}

void dequantise_blocks(const DequantiseTask& task) {
  const std::int64_t blocks = blocks_of(task.count, task.block);
  for (std::int64_t index = 0; index < blocks; ++index)
    dequantise_block(RESUMECHECK_TEAM{}, task, index);
}

template <class Values, class MomentValues>
void update_plain_of(const PlainTask& task) {
  const std::int64_t tiles = blocks_of(task.count, plain_tile);
  for (std::int64_t index = 0; index < tiles; ++index)
    update_plain_tile<FusedLerp, Values, MomentValues>(RESUMECHECK_TEAM{}, task, index);
}

void update_plain(const PlainTask& task) {
  if (task.bf16)
    task.bf16_moments ? update_plain_of<Bf16Values, Bf16Values>(task)
                      : update_plain_of<Bf16Values, Fp32Values>(task);
  else
    task.bf16_moments ? update_plain_of<Fp32Values, Bf16Values>(task)
                      : update_plain_of<Fp32Values, Fp32Values>(task);
}

}  // namespace

extern const IsaUnit RESUMECHECK_ISA_UNIT;
const IsaUnit RESUMECHECK_ISA_UNIT = {update_blocks,   update_part,       quantise_part,
                                      quantise_blocks, dequantise_blocks, update_plain};

}  // namespace resumecheck::kernels
