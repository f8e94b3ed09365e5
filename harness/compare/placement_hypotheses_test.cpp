// Each mistake is made here by hand on a small tensor, and must be named; and must not be where the
// tensor differs in another way.
#include "harness/compare/placement_hypotheses.h"

#include <gtest/gtest.h>

#include <numeric>

namespace resumecheck {
namespace {

using Boxes = std::vector<Box>;

LogicalTensor tensor_of(const Shape& shape, const std::vector<float>& values) {
  LogicalTensor tensor;
  tensor.dtype = Dtype::f32;
  tensor.shape = shape;
  const auto bytes = std::as_bytes(std::span(values));
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}

std::vector<float> counted(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

class PlacementHypotheses : public testing::Test {
 protected:
  // The names of what explains all of the tensor, held as `boxes` say, rank by rank.
  std::vector<std::string> named(const Shape& shape, const std::vector<float>& got_values,
                                 const Boxes& boxes, const std::string& name = "w") {
    const TensorKey key = {name, "param"};
    want_.state.tensors[key] = tensor_of(shape, counted(element_count(shape)));
    got_.state.tensors[key] = tensor_of(shape, got_values);
    for (std::size_t rank = 0; rank < boxes.size(); ++rank) {
      got_.holders[key].push_back({static_cast<int>(rank), boxes[rank]});
    }
    Suspect suspect;
    suspect.key = key;
    suspect.want = &want_.state.tensors.at(key);
    suspect.got = &got_.state.tensors.at(key);
    for (std::int64_t i = 0; i < element_count(shape); ++i) {
      if (suspect.want_bits(i) != suspect.got_bits(i)) suspect.differing.push_back(i);
    }
    Evidence evidence;
    evidence.want = &want_;
    evidence.got = &got_;
    std::vector<std::string> names;
    for (const Hypothesis& one : placement_hypotheses()) {
      const auto explained = one.trial(suspect, evidence);
      if (explained && explained->elements == suspect.count()) names.emplace_back(one.name);
    }
    return names;
  }
  using Names = std::vector<std::string>;
  AssembledState want_, got_;
};

Box rows(std::int64_t first, std::int64_t count) { return Box({first}, {count}); }

TEST_F(PlacementHypotheses, StridedShardsTakenAsContiguous) {
  const Boxes strided = {rows(0, 2), rows(4, 2), rows(2, 2), rows(6, 2)};
  EXPECT_EQ(named({8}, {1, 2, 5, 6, 3, 4, 7, 8}, strided), Names{"rank order ignored"});
}

TEST_F(PlacementHypotheses, OneOtherShardIsNoOrder) {
  const Boxes strided = {rows(0, 2), rows(4, 2), rows(2, 2), rows(6, 2)};
  EXPECT_EQ(named({8}, {3, 4, 1, 2, 5, 6, 7, 8}, strided), Names{});
}

TEST_F(PlacementHypotheses, OffsetsOfEvenShards) {  // 5 rows on 3 ranks: 2, 2, 1
  EXPECT_EQ(named({5}, {1, 2, 2, 3, 3}, {rows(0, 2), rows(2, 2), rows(4, 1)}),
            Names{"offset of an even shard"});
}

TEST_F(PlacementHypotheses, PaddingInFrontOfTheLastShard) {  // 7 rows on 2 ranks: 4, 3
  const Boxes uneven = {rows(0, 4), rows(4, 3)};
  EXPECT_EQ(named({7}, {1, 2, 3, 4, 0, 5, 6}, uneven), Names{"padding taken for rows"});
}

TEST_F(PlacementHypotheses, PaddingIsNotAnyZero) {
  const Boxes uneven = {rows(0, 4), rows(4, 3)};
  EXPECT_EQ(named({7}, {1, 2, 3, 4, 0, 6, 7}, uneven), Names{});
}

TEST_F(PlacementHypotheses, AnotherExpertsOrLayersTensor) {
  want_.state.tensors[{"layers.1.experts.0.fc1.bias", "param"}] = tensor_of({2}, {8, 9});
  want_.state.tensors[{"layers.0.norm.bias", "param"}] = tensor_of({2}, {6, 7});
  EXPECT_EQ(named({2}, {8, 9}, {rows(0, 2)}, "layers.1.experts.1.fc1.bias"),
            Names{"another expert's"});
  EXPECT_EQ(named({2}, {6, 7}, {rows(0, 2)}, "layers.1.norm.bias"), Names{"another layer's"});
}

TEST_F(PlacementHypotheses, ColumnsJoinedAsRows) {
  // [[1 2 3 4] [5 6 7 8]] in two shards of columns is 1 2 5 6, 3 4 7 8.
  EXPECT_EQ(named({2, 4}, {1, 2, 5, 6, 3, 4, 7, 8}, {Box({0, 0}, {2, 4})}),
            Names{"columns taken for rows"});
}

TEST_F(PlacementHypotheses, RowsOfTwoHalvesTakeTurns) {
  EXPECT_EQ(named({6}, {1, 4, 2, 5, 3, 6}, {rows(0, 6)}), Names{"rows interleaved"});
  EXPECT_EQ(named({6}, {1, 4, 2, 5, 6, 3}, {rows(0, 6)}), Names{});
}

}  // namespace
}  // namespace resumecheck
