// From runs of a parameter to tasks on the block grid, for the host and for devices alike. Checks
// its arguments here, once: everything below trusts its pointers and counts.
#pragma once

#include "kernels/adamw.h"
#include "kernels/isa_unit.h"

namespace resumecheck::kernels {

// In elements of the run: [0, head) belongs to a block that begins earlier or ends later,
// [head, tail) to whole blocks, [tail, count) to a block that ends later.
struct GridPlace {
  std::int64_t head = 0, tail = 0;
};

// All throw std::invalid_argument on what cannot be a run.
GridPlace place_on_grid(const QuantisedRun& run);
// Elements [begin, begin + count) of the run: a part of one block, or whole blocks.
BlockTask task_of(const QuantisedRun& run, const StepScalars& scalars, Profile profile,
                  std::int64_t begin, std::int64_t count);
PlainTask task_of(const PlainRun& run, const StepScalars& scalars, Profile profile);

struct FinishTasks {
  QuantiseTask moment1, moment2;
};
FinishTasks finish_tasks(const QuantisedRun& run, const CutBlock& cut);

QuantiseTask quantise_task(Storage storage, const float* values, std::int64_t count,
                           std::int64_t block, const float* codebook, std::uint8_t* codes,
                           float* scale);

// head: the elements up to the first block boundary; rest starts on the grid.
struct DequantiseTasks {
  DequantiseTask head, rest;
};
DequantiseTasks dequantise_tasks(Storage storage, const std::uint8_t* codes, const float* scale,
                                 const float* codebook, std::int64_t first, std::int64_t count,
                                 std::int64_t block, float* values);

// The step on one run with the functions of a given unit.
std::vector<CutBlock> update_quantised_with(const IsaUnit& unit, const QuantisedRun& run,
                                            const StepScalars& scalars, Profile profile);

}  // namespace resumecheck::kernels
