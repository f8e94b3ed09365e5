// Where a run lies on its block grid decides which blocks it may quantise by itself. An off-by-one
// here quantises a part of a block by its own maximum, which trains and resumes happily and equals
// nothing.
#include "kernels/run_tasks.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "kernels/code_map.h"

namespace resumecheck::kernels {
namespace {

void require(bool holds, const char* otherwise) {
  if (!holds) throw std::invalid_argument(std::string("kernels: ") + otherwise);
}

void check_block(std::int64_t block) {
  require(block > 0 && block <= std::numeric_limits<int>::max() / 2,
          "a block must have at least one element and fit an int");
}

void check_codebook(Storage storage, const float* codebook) {
  require((codebook == nullptr) == (storage == Storage::e4m3),
          "a map needs its codebook, and an e4m3 moment has none");
}

// Codes index memory: one beyond a codebook of 16 would read what lies behind it.
void check_codes(Storage storage, const std::uint8_t* codes, std::int64_t count) {
  if (storage != Storage::map4) return;
  std::uint8_t bits = 0;
  for (std::int64_t i = 0; i < count; ++i) bits |= codes[i];
  require(bits < 16, "a code of 4 bits must be at most 15");
}

void check_param(ParamType type, const std::uint16_t* rounding, const float* master) {
  require(type == ParamType::bf16 || (rounding == nullptr && master == nullptr),
          "stochastic rounding and master weights are for bf16 parameters");
}

void check_run(const QuantisedRun& run) {
  check_block(run.block);
  require(run.first >= 0 && run.count >= 0 && run.first <= run.whole - run.count,
          "a run must lie inside its parameter");
  if (run.count == 0) return;
  require(run.param != nullptr && run.grad != nullptr && run.codes1 != nullptr &&
              run.codes2 != nullptr && run.scale1 != nullptr && run.scale2 != nullptr,
          "a run that is not empty needs all its pointers");
  check_codebook(run.storage, run.codebook1);
  check_codebook(run.storage, run.codebook2);
  check_param(run.type, run.rounding, run.master);
}

void check_codes(const QuantisedRun& run) {
  check_codes(run.storage, run.codes1, run.count);
  check_codes(run.storage, run.codes2, run.count);
}

std::int64_t bytes_of(ParamType type) { return type == ParamType::bf16 ? 2 : 4; }

template <class T>
T* element_at(T* values, std::int64_t begin) {
  return values == nullptr ? nullptr : values + begin;
}

// Of a run, from its element `begin` on.
template <class Run>
ParamTask param_task(const Run& run, std::int64_t begin) {
  const std::int64_t bytes = begin * bytes_of(run.type);
  ParamTask task;
  task.bf16 = run.type == ParamType::bf16;
  task.param = element_at(static_cast<unsigned char*>(run.param), bytes);
  task.grad = element_at(static_cast<const unsigned char*>(run.grad), bytes);
  task.rounding = element_at(run.rounding, begin);
  task.master = element_at(run.master, begin);
  return task;
}

bool is_fused(Profile profile) { return profile != Profile::torchao_compiled; }

void check_cut(const QuantisedRun& run, const CutBlock& cut) {
  const auto count = static_cast<std::int64_t>(cut.moment1.size());
  require(cut.moment2.size() == cut.moment1.size() && count > 0 && count <= run.block,
          "a cut block must hold as many of the one moment as of the other");
  require(cut.begin >= 0 && cut.begin <= run.count - count, "a cut block must lie inside its run");
  require((run.first + cut.begin) / run.block == cut.block &&
              (run.first + cut.begin + count - 1) / run.block == cut.block,
          "a cut block's elements must lie inside that block");
}

}  // namespace

std::int64_t first_block(const QuantisedRun& run) { return run.first / run.block; }

std::int64_t blocks_touched(const QuantisedRun& run) {
  if (run.count == 0) return 0;
  return (run.first + run.count - 1) / run.block - first_block(run) + 1;
}

GridPlace place_on_grid(const QuantisedRun& run) {
  check_run(run);
  check_codes(run);
  const std::int64_t end = run.first + run.count;
  const std::int64_t next_boundary = (run.first + run.block - 1) / run.block * run.block;
  const std::int64_t last_boundary = end == run.whole ? end : end / run.block * run.block;
  GridPlace place;
  place.head = std::min(next_boundary, end) - run.first;
  place.tail = std::max(last_boundary - run.first, place.head);
  return place;
}

BlockTask task_of(const QuantisedRun& run, const StepScalars& scalars, Profile profile,
                  std::int64_t begin, std::int64_t count) {
  const std::int64_t block = (run.first + begin) / run.block - first_block(run);
  BlockTask task;
  task.count = count;
  task.block = run.block;
  task.fused = is_fused(profile);
  task.param = param_task(run, begin);
  task.codes1 = run.codes1 + begin;
  task.codes2 = run.codes2 + begin;
  task.scale1 = run.scale1 + block;
  task.scale2 = run.scale2 + block;
  task.map1 = code_map_for(run.storage, run.codebook1);
  task.map2 = code_map_for(run.storage, run.codebook2);
  task.scalars = scalars;
  return task;
}

PlainTask task_of(const PlainRun& run, const StepScalars& scalars, Profile profile) {
  require(run.count >= 0, "a run cannot have fewer than no elements");
  require(run.count == 0 || (run.param != nullptr && run.grad != nullptr &&
                             run.moment1 != nullptr && run.moment2 != nullptr),
          "a run that is not empty needs all its pointers");
  check_param(run.type, run.rounding, run.master);
  PlainTask task;
  task.count = run.count;
  task.fused = is_fused(profile);
  task.param = param_task(run, 0);
  task.bf16_moments = run.moment_type == ParamType::bf16;
  task.moment1 = run.moment1;
  task.moment2 = run.moment2;
  task.scalars = scalars;
  return task;
}

FinishTasks finish_tasks(const QuantisedRun& run, const CutBlock& cut) {
  check_run(run);
  check_cut(run, cut);
  const auto count = static_cast<std::int64_t>(cut.moment1.size());
  const std::int64_t block = cut.block - first_block(run);
  return {quantise_task(run.storage, cut.moment1.data(), count, run.block, run.codebook1,
                        run.codes1 + cut.begin, run.scale1 + block),
          quantise_task(run.storage, cut.moment2.data(), count, run.block, run.codebook2,
                        run.codes2 + cut.begin, run.scale2 + block)};
}

QuantiseTask quantise_task(Storage storage, const float* values, std::int64_t count,
                           std::int64_t block, const float* codebook, std::uint8_t* codes,
                           float* scale) {
  check_block(block);
  require(count >= 0, "a tensor cannot have fewer than no elements");
  check_codebook(storage, codebook);
  require(count == 0 || (values != nullptr && codes != nullptr && scale != nullptr),
          "a tensor that is not empty needs all its pointers");
  QuantiseTask task;
  task.count = count;
  task.block = block;
  task.values = values;
  task.codes = codes;
  task.scale = scale;
  task.map = code_map_for(storage, codebook);
  return task;
}

DequantiseTasks dequantise_tasks(Storage storage, const std::uint8_t* codes, const float* scale,
                                 const float* codebook, std::int64_t first, std::int64_t count,
                                 std::int64_t block, float* values) {
  check_block(block);
  require(first >= 0 && count >= 0, "a run of codes must lie inside its tensor");
  require(count == 0 || (codes != nullptr && scale != nullptr && values != nullptr),
          "a run of codes that is not empty needs all its pointers");
  if (count > 0) check_codebook(storage, codebook);
  check_codes(storage, codes, count);
  const std::int64_t in_block = first % block;
  const std::int64_t head = in_block == 0 ? 0 : std::min(block - in_block, count);
  DequantiseTasks tasks;
  tasks.head.count = head;
  tasks.head.block = block;
  tasks.head.codes = codes;
  tasks.head.scale = scale;
  if (count > 0) tasks.head.map = code_map_for(storage, codebook);
  tasks.head.values = values;
  tasks.rest = tasks.head;
  tasks.rest.count = count - head;
  if (tasks.rest.count > 0) {
    tasks.rest.codes += head;
    tasks.rest.values += head;
    tasks.rest.scale += head > 0 ? 1 : 0;
  }
  return tasks;
}

}  // namespace resumecheck::kernels
