// On a device the threads of a phase run in no order at all. Here each phase's threads run one
// after another in an order drawn anew for every phase: a phase that reads what a neighbour writes
// gives other bits than the twin, as it would on some device, some day.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "kernels/model_tasks.h"
#include "kernels/model_twin_comparison.h"
#include "kernels/run_tasks.h"
#include "kernels/twin_comparison.h"

namespace resumecheck::kernels {
namespace {

std::vector<int> shuffled_threads(int count) {
  static std::mt19937 random(1);
  std::vector<int> threads;
  for (int thread = 0; thread < count; ++thread) threads.push_back(thread);
  std::shuffle(threads.begin(), threads.end(), random);
  return threads;
}

struct ShuffledTeam {
  template <int stride, class Phase>
  void elements(int count, Phase phase) const {
    for (const int thread : shuffled_threads(stride))
      for (int i = thread; i < count; i += stride) phase(thread, i);
  }
  template <class Phase>
  void threads(int active, Phase phase) const {
    for (const int thread : shuffled_threads(active)) phase(thread);
  }
};

}  // namespace
}  // namespace resumecheck::kernels

#define RESUMECHECK_TEAM ShuffledTeam
#define RESUMECHECK_ISA_UNIT shuffled_unit
#include "kernels/isa_unit_body.h"

namespace resumecheck::kernels {
namespace {

Subject shuffled_subject() {
  Subject subject;
  subject.name = "shuffled";
  subject.update = [](const QuantisedRun& run, const StepScalars& scalars, Profile profile) {
    return update_quantised_with(shuffled_unit, run, scalars, profile);
  };
  subject.finish = [](const QuantisedRun& run, const CutBlock& cut) {
    const FinishTasks tasks = finish_tasks(run, cut);
    shuffled_unit.quantise_part(tasks.moment1, cut.absmax1);
    shuffled_unit.quantise_part(tasks.moment2, cut.absmax2);
  };
  subject.update_plain = [](const PlainRun& run, const StepScalars& scalars, Profile profile) {
    shuffled_unit.update_plain(task_of(run, scalars, profile));
  };
  subject.quantise = [](Storage storage, const float* values, std::int64_t count,
                        std::int64_t block, const float* codebook, std::uint8_t* codes,
                        float* scale) {
    shuffled_unit.quantise_blocks(
        quantise_task(storage, values, count, block, codebook, codes, scale));
  };
  subject.dequantise = [](Storage storage, const std::uint8_t* codes, const float* scale,
                          const float* codebook, std::int64_t first, std::int64_t count,
                          std::int64_t block, float* values) {
    const DequantiseTasks tasks =
        dequantise_tasks(storage, codes, scale, codebook, first, count, block, values);
    shuffled_unit.dequantise_blocks(tasks.head);
    shuffled_unit.dequantise_blocks(tasks.rest);
  };
  return subject;
}

TEST(Phases, GiveTheSameBitsInAnyOrderOfTheirThreads) {
  for (const Outcome& outcome : compare_with_twin(shuffled_subject(), 1)) {
    EXPECT_GT(outcome.elements, 0) << outcome.kernel << " compared nothing";
    EXPECT_EQ(outcome.mismatches, 0)
        << outcome.kernel << ": " << outcome.first_mismatch
        << "\na phase depends on the order of its threads: it needs a barrier, so two phases";
  }
}

TEST(Phases, OfTheModelGiveTheSameBitsInAnyOrderOfTheirThreads) {
  for (const Outcome& outcome :
       compare_model_with_twin(model_kernels_with(shuffled_unit.model, "shuffled"), 1)) {
    EXPECT_GT(outcome.elements, 0) << outcome.kernel << " compared nothing";
    EXPECT_EQ(outcome.mismatches, 0)
        << outcome.kernel << ": " << outcome.first_mismatch
        << "\na phase depends on the order of its threads: it needs a barrier, so two phases";
  }
}

// The check itself: a running sum in place depends on the order, and this must show.
struct ReadsItsNeighbour {
  int* values;
  void operator()(int, int i) const { values[i] += i > 0 ? values[i - 1] : 0; }
};

TEST(ShuffledTeam, ShowsAPhaseThatReadsItsNeighbour) {
  std::vector<int> in_order(256, 1), shuffled(256, 1);
  for (int i = 0; i < 256; ++i) ReadsItsNeighbour{in_order.data()}(i, i);
  ShuffledTeam{}.elements<256>(256, ReadsItsNeighbour{shuffled.data()});
  EXPECT_NE(in_order, shuffled);
}

}  // namespace
}  // namespace resumecheck::kernels
