// The host's AdamW. A part of a block must not be quantised by what one rank sees of it, nor
// a whole block be left to the caller: either would still train, to other bits on another mesh.
#include "kernels/adamw.h"

#include <memory>
#include <new>

#include "kernels/isa.h"
#include "kernels/run_tasks.h"

namespace resumecheck::kernels {
namespace {

struct FreeAligned {
  void operator()(float* values) const { ::operator delete (values, std::align_val_t{64}); }
};

// Aligned to a cache line, so that no vector straddles two.
std::unique_ptr<float, FreeAligned> scratch_of(std::int64_t floats) {
  const auto bytes = static_cast<std::size_t>(floats) * sizeof(float);
  return std::unique_ptr<float, FreeAligned>(
      static_cast<float*>(::operator new (bytes, std::align_val_t{64})));
}

CutBlock cut_block(const IsaUnit& unit, const QuantisedRun& run, const BlockTask& task,
                   std::int64_t begin) {
  CutBlock cut;
  cut.block = (run.first + begin) / run.block;
  cut.begin = begin;
  cut.moment1.resize(static_cast<std::size_t>(task.count));
  cut.moment2.resize(static_cast<std::size_t>(task.count));
  std::uint32_t absmax[2] = {0, 0};
  unit.update_part(task, cut.moment1.data(), cut.moment2.data(), absmax);
  cut.absmax1 = absmax[0];
  cut.absmax2 = absmax[1];
  return cut;
}

}  // namespace

std::vector<CutBlock> update_quantised_with(const IsaUnit& unit, const QuantisedRun& run,
                                            const StepScalars& scalars, Profile profile) {
  const GridPlace place = place_on_grid(run);
  const auto task = [&](std::int64_t begin, std::int64_t end) {
    return task_of(run, scalars, profile, begin, end - begin);
  };
  std::vector<CutBlock> cuts;
  if (place.head > 0) cuts.push_back(cut_block(unit, run, task(0, place.head), 0));
  if (place.tail > place.head) {
    const auto scratch = scratch_of(2 * run.block);
    unit.update_blocks(task(place.head, place.tail), scratch.get());
  }
  if (run.count > place.tail)
    cuts.push_back(cut_block(unit, run, task(place.tail, run.count), place.tail));
  return cuts;
}

std::vector<CutBlock> update_quantised(const QuantisedRun& run, const StepScalars& scalars,
                                       Profile profile, Isa isa) {
  return update_quantised_with(unit_of(isa), run, scalars, profile);
}

void finish_cut_block(const QuantisedRun& run, const CutBlock& cut, Isa isa) {
  const FinishTasks tasks = finish_tasks(run, cut);
  unit_of(isa).quantise_part(tasks.moment1, cut.absmax1);
  unit_of(isa).quantise_part(tasks.moment2, cut.absmax2);
}

void update_plain(const PlainRun& run, const StepScalars& scalars, Profile profile, Isa isa) {
  unit_of(isa).update_plain(task_of(run, scalars, profile));
}

void dequantise(Storage storage, const std::uint8_t* codes, const float* scale,
                const float* codebook, std::int64_t first, std::int64_t count, std::int64_t block,
                float* values, Isa isa) {
  const DequantiseTasks tasks =
      dequantise_tasks(storage, codes, scale, codebook, first, count, block, values);
  unit_of(isa).dequantise_blocks(tasks.head);
  unit_of(isa).dequantise_blocks(tasks.rest);
}

void quantise(Storage storage, const float* values, std::int64_t count, std::int64_t block,
              const float* codebook, std::uint8_t* codes, float* scale, Isa isa) {
  unit_of(isa).quantise_blocks(
      quantise_task(storage, values, count, block, codebook, codes, scale));
}

}  // namespace resumecheck::kernels
