// Where a run lies on its block grid, and the refusal of what cannot be a run: a wrong pointer or
// count must be an exception here, not a write out of bounds in a vector loop.
#include "kernels/run_tasks.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace resumecheck::kernels {
namespace {

// Pointers are never followed by these tests.
QuantisedRun run_at(std::int64_t first, std::int64_t count, std::int64_t whole) {
  static float values[64];
  static std::uint8_t codes[64];
  QuantisedRun run;
  run.first = first;
  run.count = count;
  run.whole = whole;
  run.block = 8;
  run.param = values;
  run.grad = values;
  run.codes1 = run.codes2 = codes;
  run.scale1 = run.scale2 = values;
  run.codebook1 = standard_codebook(Storage::map8, true).data();
  run.codebook2 = standard_codebook(Storage::map8, false).data();
  return run;
}

struct Expected {
  std::int64_t first, count, whole, head, tail, first_block, blocks;
};

TEST(GridPlace, IsWhereTheWholeBlocksAre) {
  const Expected cases[] = {
      {0, 32, 32, 0, 32, 0, 4},  // everything
      {0, 30, 30, 0, 30, 0, 4},  // the last block of the parameter is short, and whole
      {0, 30, 32, 0, 24, 0, 4},  // ends inside a block
      {3, 29, 32, 5, 29, 0, 4},  // begins inside a block
      {3, 20, 32, 5, 13, 0, 3},  // both
      {3, 4, 32, 4, 4, 0, 1},    // inside one block
      {3, 5, 32, 5, 5, 0, 1},    // up to its end
      {8, 5, 32, 0, 0, 1, 1},    // from its start
      {8, 8, 32, 0, 8, 1, 1},    // exactly one
      {24, 6, 30, 0, 6, 3, 1},   // the short last block
      {25, 5, 30, 5, 5, 3, 1},   // the rest of the short last block
      {7, 2, 32, 1, 1, 0, 2},    // two blocks, none whole
      {16, 0, 32, 0, 0, 2, 0},   // nothing
      {32, 0, 32, 0, 0, 4, 0},   // nothing, at the end
  };
  for (const Expected& e : cases) {
    const QuantisedRun run = run_at(e.first, e.count, e.whole);
    const GridPlace place = place_on_grid(run);
    const std::string where = "run of " + std::to_string(e.count) + " from " +
                              std::to_string(e.first) + " of " + std::to_string(e.whole);
    EXPECT_EQ(place.head, e.head) << where;
    EXPECT_EQ(place.tail, e.tail) << where;
    EXPECT_EQ(first_block(run), e.first_block) << where;
    EXPECT_EQ(blocks_touched(run), e.blocks) << where;
  }
}

TEST(Runs, ThatCannotBeAreRefused) {
  EXPECT_THROW(place_on_grid(run_at(-1, 4, 32)), std::invalid_argument);
  EXPECT_THROW(place_on_grid(run_at(0, -4, 32)), std::invalid_argument);
  EXPECT_THROW(place_on_grid(run_at(30, 4, 32)), std::invalid_argument);
  QuantisedRun run = run_at(0, 8, 32);
  run.block = 0;
  EXPECT_THROW(place_on_grid(run), std::invalid_argument);
  run = run_at(0, 8, 32);
  run.scale2 = nullptr;
  EXPECT_THROW(place_on_grid(run), std::invalid_argument);
  run = run_at(0, 0, 32);
  run.scale2 = nullptr;
  EXPECT_NO_THROW(place_on_grid(run)) << "an empty run of an uneven mesh has no storage";
  EXPECT_THROW(quantise_task(Storage::map8, nullptr, 4, 8,
                             standard_codebook(Storage::map8, true).data(), nullptr, nullptr),
               std::invalid_argument);
  EXPECT_THROW(dequantise_tasks(Storage::map8, nullptr, nullptr, nullptr, 0, 4, 8, nullptr),
               std::invalid_argument);
  EXPECT_THROW(step_scalars({}, 0), std::invalid_argument) << "steps count from 1";
}

TEST(Runs, WhoseStorageDoesNotFitAreRefused) {
  QuantisedRun run = run_at(0, 8, 32);
  run.storage = Storage::e4m3;
  EXPECT_THROW(place_on_grid(run), std::invalid_argument) << "an e4m3 moment with a codebook";
  run.codebook1 = run.codebook2 = nullptr;
  EXPECT_NO_THROW(place_on_grid(run));
  run.storage = Storage::map4;
  EXPECT_THROW(place_on_grid(run), std::invalid_argument) << "a map without its codebook";
  run.codebook1 = standard_codebook(Storage::map4, true).data();
  run.codebook2 = standard_codebook(Storage::map4, false).data();
  EXPECT_NO_THROW(place_on_grid(run));
  std::uint8_t codes[8] = {0, 1, 2, 3, 4, 5, 6, 16};
  run.codes2 = codes;
  EXPECT_THROW(place_on_grid(run), std::invalid_argument) << "a code behind the codebook's end";
}

TEST(Runs, OfFp32ParametersHaveNoRoundingAndNoMaster) {
  static float master[8];
  static const std::uint16_t rounding[8] = {};
  PlainRun plain;
  plain.master = master;
  EXPECT_THROW(task_of(plain, {}, Profile::canonical), std::invalid_argument);
  plain.type = ParamType::bf16;
  EXPECT_NO_THROW(task_of(plain, {}, Profile::canonical));
  QuantisedRun run = run_at(0, 8, 32);
  run.rounding = rounding;
  EXPECT_THROW(place_on_grid(run), std::invalid_argument);
}

TEST(CutBlocks, ThatDoNotFitTheirRunAreRefused) {
  const QuantisedRun run = run_at(3, 20, 32);
  CutBlock cut;
  cut.block = 0;
  cut.begin = 0;
  cut.moment1.resize(5);
  cut.moment2.resize(5);
  EXPECT_NO_THROW(finish_tasks(run, cut));
  cut.block = 1;
  EXPECT_THROW(finish_tasks(run, cut), std::invalid_argument) << "another block's elements";
  cut.block = 0;
  cut.moment1.resize(6);
  cut.moment2.resize(6);
  EXPECT_THROW(finish_tasks(run, cut), std::invalid_argument) << "more than the block's part";
  cut.moment2.resize(5);
  EXPECT_THROW(finish_tasks(run, cut), std::invalid_argument) << "moments of different sizes";
}

// A run cut inside a block must not be quantised by its own maximum alone.
TEST(CutBlocks, KeepTheirCodesUntilTheyAreFinished) {
  float param[6] = {1, 2, 3, 4, 5, 6}, grad[6] = {1, -2, 3, -4, 5, -6}, scale1[1] = {7},
        scale2[1] = {7};
  std::uint8_t codes1[6] = {9, 9, 9, 9, 9, 9}, codes2[6] = {9, 9, 9, 9, 9, 9};
  QuantisedRun run = run_at(1, 6, 32);
  run.param = param;
  run.grad = grad;
  run.codes1 = codes1;
  run.codes2 = codes2;
  run.scale1 = scale1;
  run.scale2 = scale2;
  for (const Isa isa : available_isas()) {
    const std::vector<CutBlock> cuts =
        update_quantised(run, step_scalars({}, 1), Profile::canonical, isa);
    ASSERT_EQ(cuts.size(), 1U);
    EXPECT_EQ(codes1[0], 9);
    EXPECT_EQ(scale1[0], 7.0F);
    EXPECT_EQ(cuts[0].moment1.size(), 6U);
  }
}

}  // namespace
}  // namespace resumecheck::kernels
