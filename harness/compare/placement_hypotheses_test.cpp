// Each mistake about who holds what is named where its bits are there, and no longer once a single
// element is another.
#include "harness/compare/placement_hypotheses.h"

#include <gtest/gtest.h>

#include "harness/compare/state_builder.h"

namespace resumecheck {
namespace {

const TensorKey kWeight = {"layers.0.experts.0.fc1.weight", "param"};

LogicalTensor rows_of(const std::vector<int>& rows) {
  std::vector<float> values;
  for (const int row : rows) {
    values.push_back(static_cast<float>(10 * row));
    values.push_back(static_cast<float>(10 * row + 1));
  }
  return tensor_of(Dtype::f32, {static_cast<std::int64_t>(rows.size()), 2}, values);
}

// Six rows, and those of another expert and of another layer.
AssembledState saved() {
  AssembledState assembled;
  auto& tensors = assembled.state.tensors;
  tensors[kWeight] = rows_of({1, 2, 3, 4, 5, 6});
  tensors[{"layers.0.experts.1.fc1.weight", "param"}] = rows_of({11, 12, 13, 14, 15, 16});
  tensors[{"layers.1.experts.0.fc1.weight", "param"}] = rows_of({21, 22, 23, 24, 25, 26});
  assembled.mesh = "dp1";
  return assembled;
}

std::string best_fit(const LogicalTensor& loaded, const std::string& mesh,
                     const std::vector<Box>& boxes) {
  const AssembledState want = saved();
  AssembledState got = want;
  got.state.tensors[kWeight] = loaded;
  got.mesh = mesh;
  got.world = static_cast<int>(boxes.size());
  for (int rank = 0; rank < got.world; ++rank) {
    got.holders[kWeight].push_back({rank, boxes[static_cast<std::size_t>(rank)]});
  }
  Evidence evidence;
  evidence.want = &want;
  evidence.got = &got;
  const Diagnosis found = diagnose(compare(want.state, got.state, {"param"}), evidence);
  return found.fits.empty() ? "" : found.fits.front().name;
}

void expect_named(const char* name, LogicalTensor loaded, const std::string& mesh,
                  const std::vector<Box>& boxes) {
  EXPECT_EQ(best_fit(loaded, mesh, boxes), name);
  set_element(loaded, 7, -1.0F);
  EXPECT_NE(best_fit(loaded, mesh, boxes), name) << "an element is another";
}

const std::vector<Box> kOne = {Box::whole({6, 2})};
const std::vector<Box> kThirds = {Box({0, 0}, {2, 2}), Box({2, 0}, {2, 2}), Box({4, 0}, {2, 2})};

TEST(PlacementHypotheses, RankOrderIgnored) {
  const std::vector<Box> strided = {Box({0, 0}, {2, 2}), Box({4, 0}, {2, 2}), Box({2, 0}, {2, 2})};
  const LogicalTensor loaded = rows_of({1, 2, 5, 6, 3, 4});
  expect_named("rank order ignored", loaded, "tp3", strided);
  EXPECT_EQ(best_fit(loaded, "tp3", kThirds), "another rank's shard") << "the ranks are in order";
}

TEST(PlacementHypotheses, UnevenShards) {
  // Of dp4 the fourth rank holds nothing.
  expect_named("offset of an even shard", rows_of({1, 2, 2, 3, 3, 4}), "dp4", kThirds);
  const std::vector<Box> short_last = {Box({0, 0}, {4, 2}), Box({4, 0}, {2, 2})};
  EXPECT_EQ(best_fit(rows_of({1, 2, 2, 3, 3, 4}), "dp3", kThirds), "") << "the shards are even";
  EXPECT_EQ(best_fit(rows_of({1, 2, 2, 3, 3, 4}), "dp4", short_last), "") << "cut otherwise";
}

TEST(PlacementHypotheses, RowsInterleaved) {
  expect_named("rows interleaved", rows_of({1, 4, 2, 5, 3, 6}), "tp1", kOne);
}

TEST(PlacementHypotheses, ColumnsTakenForRows) {
  const std::vector<Box> columns = {Box({0, 0}, {6, 1}), Box({0, 1}, {6, 1})};
  const LogicalTensor loaded = tensor_of(
      Dtype::f32, {6, 2}, std::vector<float>{10, 20, 30, 40, 50, 60, 11, 21, 31, 41, 51, 61});
  expect_named("columns taken for rows", loaded, "tp2", columns);
  EXPECT_EQ(best_fit(loaded, "dp1", kOne), "") << "nothing splits columns";
}

TEST(PlacementHypotheses, AnotherExpertOrLayer) {
  expect_named("another expert's", rows_of({11, 12, 13, 14, 15, 16}), "ep1", kOne);
  expect_named("another layer's", rows_of({21, 22, 23, 24, 25, 26}), "pp1", kOne);
}

TEST(PlacementHypotheses, PaddingTakenForRows) {
  const std::vector<Box> five = {Box({0, 0}, {2, 2}), Box({2, 0}, {2, 2}), Box({4, 0}, {1, 2})};
  const AssembledState want = [] {
    AssembledState state = saved();
    state.state.tensors[kWeight] = rows_of({1, 2, 3, 4, 5});
    return state;
  }();
  AssembledState got = want;
  got.mesh = "dp3";
  LogicalTensor& loaded = got.state.tensors[kWeight];
  set_element(loaded, 8, 0.0F);
  set_element(loaded, 9, 0.0F);
  for (int rank = 0; rank < 3; ++rank) {
    got.holders[kWeight].push_back({rank, five[static_cast<std::size_t>(rank)]});
  }
  Evidence evidence;
  evidence.want = &want;
  evidence.got = &got;
  const auto name = [&] {
    const Diagnosis found = diagnose(compare(want.state, got.state, {"param"}), evidence);
    return found.fits.empty() ? std::string() : found.fits.front().name;
  };
  EXPECT_EQ(name(), "padding taken for rows");
  set_element(loaded, 9, 1.0F);
  EXPECT_NE(name(), "padding taken for rows") << "that is no padding";
}

}  // namespace
}  // namespace resumecheck
