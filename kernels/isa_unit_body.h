// The host build of the phases, included once by each isa_<name>.cpp after it has defined
// RESUMECHECK_ISA_UNIT, the name of its table. Everything but that table has internal linkage: a
// function shared between instruction sets would be the wrong one for one of them. A test may bring
// a team of its own as RESUMECHECK_TEAM.
#include "kernels/adamw_phases.h"
#include "kernels/model_phases.h"

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

void update_blocks(const BlockTask& task, float* scratch) {
  by_policies(task, [&](auto arithmetic, auto param) {
    std::uint32_t words[reduction_words];
    const BlockMemory memory = {scratch, scratch + task.block, words, words + 2 * partial_maxima};
    const std::int64_t blocks = blocks_of(task.count, task.block);
    for (std::int64_t index = 0; index < blocks; ++index)
      update_block<decltype(arithmetic), decltype(param)>(RESUMECHECK_TEAM{}, task, index, memory);
  });
}

void update_part(const BlockTask& task, float* moment1, float* moment2, std::uint32_t* absmax) {
  by_policies(task, [&](auto arithmetic, auto param) {
    std::uint32_t partials[2 * partial_maxima];
    update_moments<decltype(arithmetic), decltype(param)>(
        RESUMECHECK_TEAM{}, task, 0, 0, static_cast<int>(task.count),
        BlockMemory{moment1, moment2, partials, absmax});
  });
}

void quantise_part(const QuantiseTask& task, std::uint32_t absmax) {
  quantise_values(RESUMECHECK_TEAM{}, task.values, static_cast<int>(task.count), &absmax, task.map,
                  task.codes, task.scale);
}

void quantise_blocks(const QuantiseTask& task) {
  std::uint32_t words[partial_maxima + 1];
  const std::int64_t blocks = blocks_of(task.count, task.block);
  for (std::int64_t index = 0; index < blocks; ++index)
    quantise_block(RESUMECHECK_TEAM{}, task, index, words, words + partial_maxima);
}

void dequantise_blocks(const DequantiseTask& task) {
  const std::int64_t blocks = blocks_of(task.count, task.block);
  for (std::int64_t index = 0; index < blocks; ++index)
    dequantise_block(RESUMECHECK_TEAM{}, task, index);
}

template <class MomentValues>
void update_plain_of(const PlainTask& task) {
  by_policies(task, [&](auto arithmetic, auto param) {
    const std::int64_t tiles = blocks_of(task.count, plain_tile);
    for (std::int64_t index = 0; index < tiles; ++index)
      update_plain_tile<decltype(arithmetic), decltype(param), MomentValues>(RESUMECHECK_TEAM{},
                                                                             task, index);
  });
}

void update_plain(const PlainTask& task) {
  task.bf16_moments ? update_plain_of<Bf16Values>(task) : update_plain_of<Fp32Values>(task);
}

// A task of fp8_phases.h or model_phases.h, team by team.
template <class Task>
void run_teams(const Task& task) {
  TeamMemory memory;
  const std::int64_t teams = teams_of(task);
  for (std::int64_t index = 0; index < teams; ++index)
    run_team(RESUMECHECK_TEAM{}, task, index, memory);
}

}  // namespace

extern const IsaUnit RESUMECHECK_ISA_UNIT;
const IsaUnit RESUMECHECK_ISA_UNIT = {
    update_blocks,
    update_part,
    quantise_part,
    quantise_blocks,
    dequantise_blocks,
    update_plain,
    {run_teams<CastTask>, run_teams<DecodeTask>, run_teams<AmaxTask>, run_teams<ScalingTask>,
     run_teams<ProductTask>, run_teams<ChunkAdditionTask>, run_teams<EpilogueTask>,
     run_teams<LayerNormTask>, run_teams<LayerNormBackwardTask>, run_teams<ReluTask>,
     run_teams<ReluBackwardTask>, run_teams<LossTask>}};

}  // namespace resumecheck::kernels
