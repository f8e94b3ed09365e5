// A wrong box is wrong in save and in load alike, so that a round trip on one mesh passes: only
// what another mesh reads, or a table written by hand, tells it. The properties below hold of every
// shape and mesh: boxes tile, replicas agree, and a tensor survives any chain of meshes.
#include "harness/scenario/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <span>

#include "harness/state/expect_error.h"

namespace resumecheck {
namespace {

using Kind = Error::Kind;
using Values = std::vector<std::int32_t>;

struct Random {
  std::mt19937 engine{7};
  int below(int bound) { return static_cast<int>(engine() % static_cast<unsigned>(bound)); }
};

// Up to 8 ranks; every dim in every order.
Mesh any_mesh(Random& random) {
  std::vector<std::string> dims = {"rep", "dp", "tp", "pp", "cp", "ep"};
  std::shuffle(dims.begin(), dims.end(), random.engine);
  std::string text;
  int left = 8;
  const int count = 1 + random.below(4);
  for (int i = 0; i < count; ++i) {
    const int size = 1 + random.below(left);
    text += dims[static_cast<std::size_t>(i)];
    text += static_cast<char>('0' + size);
    left /= size;
  }
  return Mesh::parse(text);
}

Shape any_shape(Random& random) {
  Shape shape(static_cast<std::size_t>(1 + random.below(3)));
  std::generate(shape.begin(), shape.end(), [&] { return 1 + random.below(11); });
  return shape;
}

// tp and dp split, in either order and on any dimension; pp or ep say who holds it.
Placement any_placement(Random& random, const Shape& shape, const Mesh& mesh) {
  Placement placement;
  const auto dimension = [&] { return random.below(static_cast<int>(shape.size())); };
  placement.splits = {{"tp", dimension()}, {"dp", dimension()}};
  if (random.below(2) == 0) std::swap(placement.splits[0], placement.splits[1]);
  for (const char* dim : {"pp", "ep"}) {
    if (random.below(2) == 0 || mesh.size_of(dim) == 1) continue;
    const int at = random.below(mesh.size_of(dim));
    placement.only_at[dim] = {at, at + 1};
  }
  return placement;
}

std::vector<Box> boxes_of(const Shape& shape, const Placement& placement, const Mesh& mesh) {
  std::vector<Box> boxes;
  boxes.reserve(static_cast<std::size_t>(mesh.world()));
  for (int rank = 0; rank < mesh.world(); ++rank) {
    boxes.push_back(box_of(shape, placement, mesh, rank));
  }
  return boxes;
}

std::span<const std::byte> bytes_of(const Values& values) {
  return std::as_bytes(std::span(values));
}

// The shards of a tensor, and back: what no rank writes stays -1.
std::vector<Values> scatter(const Values& whole, const Shape& shape,
                            const std::vector<Box>& boxes) {
  std::vector<Values> shards;
  shards.reserve(boxes.size());
  for (const Box& box : boxes) {
    Values shard(static_cast<std::size_t>(box.element_count()));
    copy_region(box, Box::whole(shape), bytes_of(whole), box,
                std::as_writable_bytes(std::span(shard)), sizeof(std::int32_t));
    shards.push_back(std::move(shard));
  }
  return shards;
}

Values gather(const std::vector<Values>& shards, const Shape& shape,
              const std::vector<Box>& boxes) {
  Values whole(static_cast<std::size_t>(element_count(shape)), -1);
  for (std::size_t rank = 0; rank < boxes.size(); ++rank) {
    copy_region(boxes[rank], boxes[rank], bytes_of(shards[rank]), Box::whole(shape),
                std::as_writable_bytes(std::span(whole)), sizeof(std::int32_t));
  }
  return whole;
}

Values numbered(const Shape& shape) {
  Values values(static_cast<std::size_t>(element_count(shape)));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(Placement, BoxesTileAndOnlyReplicasOverlap) {
  Random random;
  int empty = 0, uneven = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const Mesh mesh = any_mesh(random);
    const Shape shape = any_shape(random);
    const Placement placement = any_placement(random, shape, mesh);
    SCOPED_TRACE(mesh.text() + " " + to_text(shape));
    const std::vector<Box> boxes = boxes_of(shape, placement, mesh);
    std::int64_t distinct = 0;
    std::vector<Box> seen;
    std::set<std::int64_t> sizes;
    for (const Box& box : boxes) {
      ASSERT_TRUE(box.inside(shape));
      sizes.insert(box.element_count());
      if (box.empty() || std::find(seen.begin(), seen.end(), box) != seen.end()) continue;
      for (const Box& other : seen) ASSERT_FALSE(box.intersection(other));
      distinct += box.element_count();
      seen.push_back(box);
    }
    ASSERT_EQ(distinct, element_count(shape));
    if (sizes.count(0) > 0) ++empty;
    if (sizes.size() > 1) ++uneven;
  }
  EXPECT_GT(empty, 300);
  EXPECT_GT(uneven, 300);
}

// Of every mesh's shards another mesh makes its own, and a third: nothing is lost or moved.
TEST(Placement, ReshardIsAPermutationAndRoundTripsAreIdentities) {
  Random random;
  for (int trial = 0; trial < 1000; ++trial) {
    const Shape shape = any_shape(random);
    const Values begin = numbered(shape);
    Values whole = begin;
    std::vector<Values> first;
    std::vector<Box> first_boxes;
    for (int hop = 0; hop < 3; ++hop) {
      const Mesh mesh = any_mesh(random);
      SCOPED_TRACE(mesh.text() + " " + to_text(shape));
      const auto boxes = boxes_of(shape, any_placement(random, shape, mesh), mesh);
      const std::vector<Values> shards = scatter(whole, shape, boxes);
      whole = gather(shards, shape, boxes);
      ASSERT_EQ(whole, begin);  // every element once and in its place
      if (hop > 0) continue;
      first = shards;
      first_boxes = boxes;
    }
    ASSERT_EQ(scatter(whole, shape, first_boxes), first);
  }
}

// Replicas are ranks that differ only in dims that neither split the tensor nor say who holds it.
TEST(Placement, DimsThatDoNotSplitReplicate) {
  Random random;
  for (int trial = 0; trial < 500; ++trial) {
    const Mesh mesh = any_mesh(random);
    const Shape shape = any_shape(random);
    const Placement placement = any_placement(random, shape, mesh);
    SCOPED_TRACE(mesh.text() + " " + to_text(shape));
    for (int one = 0; one < mesh.world(); ++one) {
      for (int two = 0; two < mesh.world(); ++two) {
        auto at = mesh.coordinates(one), other = mesh.coordinates(two);
        for (const char* dim : {"rep", "cp"}) {
          at.erase(dim);
          other.erase(dim);
        }
        if (at != other) continue;
        ASSERT_EQ(box_of(shape, placement, mesh, one), box_of(shape, placement, mesh, two));
      }
    }
  }
}

Settings model(std::int64_t experts, bool tied) {
  Settings settings;
  settings.model.kind = "layernorm_mlp";
  settings.model.layers = 3;
  settings.model.experts = experts;
  settings.model.tied = tied;
  return settings;
}

std::vector<std::string> rows_of(const std::string& mesh_text, const std::string& parameter,
                                 const Shape& shape, const Settings& settings) {
  const Mesh mesh = Mesh::parse(mesh_text);
  std::vector<std::string> rows;
  rows.reserve(static_cast<std::size_t>(mesh.world()));
  for (int rank = 0; rank < mesh.world(); ++rank) {
    const Box box = box_of(shape, placement_of(settings, parameter, mesh), mesh, rank);
    rows.push_back(box.empty() ? "-" : to_text(box));
  }
  return rows;
}

// The order in which a mesh is written says which rank sits where and no more.
TEST(Placement, ShardsAreStridedOrContiguousByTheOrderOfTheMesh) {
  using Rows = std::vector<std::string>;
  const Settings settings = model(0, false);
  const std::string name = "layers.1.fc1.weight";
  EXPECT_EQ(rows_of("tp2dp2", name, {8, 4}, settings),
            (Rows{"[0:2, 0:4]", "[2:4, 0:4]", "[4:6, 0:4]", "[6:8, 0:4]"}));
  EXPECT_EQ(rows_of("dp2tp2", name, {8, 4}, settings),
            (Rows{"[0:2, 0:4]", "[4:6, 0:4]", "[2:4, 0:4]", "[6:8, 0:4]"}));
  EXPECT_EQ(rows_of("dp2tp2", "layers.1.fc2.weight", {8, 4}, settings),
            (Rows{"[0:4, 0:2]", "[0:4, 2:4]", "[4:8, 0:2]", "[4:8, 2:4]"}));
  EXPECT_EQ(rows_of("dp2tp2", "layers.1.fc2.bias", {4}, settings),
            (Rows{"[0:2]", "[0:2]", "[2:4]", "[2:4]"}));
  // tp leaves 3 and 2 of 5 rows, of which dp takes 2 and 1, and 1 and 1.
  EXPECT_EQ(rows_of("tp2dp2", name, {5, 1}, settings),
            (Rows{"[0:2, 0:1]", "[2:3, 0:1]", "[3:4, 0:1]", "[4:5, 0:1]"}));
}

TEST(Placement, StagesAndExpertsHoldWhatIsTheirs) {
  using Rows = std::vector<std::string>;
  const Settings dense = model(0, false);
  EXPECT_EQ(rows_of("pp2", "layers.1.fc1.bias", {4}, dense), (Rows{"[0:4]", "-"}));
  EXPECT_EQ(rows_of("pp2", "layers.2.fc1.bias", {4}, dense), (Rows{"-", "[0:4]"}));
  const Settings experts = model(3, false);
  const std::string name = "layers.2.experts.1.fc1.bias";
  EXPECT_EQ(rows_of("ep2", name, {4}, experts), (Rows{"[0:4]", "-"}));
  EXPECT_EQ(rows_of("pp2ep2", name, {4}, experts), (Rows{"-", "-", "[0:4]", "-"}));
  EXPECT_EQ(rows_of("ep2", "layers.2.norm.weight", {4}, experts), (Rows{"[0:4]", "[0:4]"}));
  EXPECT_EQ(rows_of("pp3", "layers.0.fc1.weight", {2, 2}, model(0, true)), (Rows(3, "[0:2, 0:2]")));
}

TEST(Placement, NamesOfAModelsParts) {
  const ModelPart part = model_part("layers.12.experts.3.fc2.weight");
  EXPECT_EQ(part.layer, 12);
  EXPECT_EQ(part.expert, 3);
  EXPECT_EQ(part.name, "fc2.weight");
  EXPECT_EQ(model_part("layers.0.norm.bias").expert, -1);
  for (const char* name :
       {"embedding.weight", "layers.x.fc1.bias", "layers.1", "layers.99999999999999999999.a"}) {
    SCOPED_TRACE(name);
    expect_error(Kind::harness, {name, "no parameter of a model"}, [&] { model_part(name); });
  }
  const Settings::Model tied = model(0, true).model, experts = model(2, false).model;
  EXPECT_EQ(parameter_name(tied, 2, -1, "fc1.weight"), "layers.0.fc1.weight");
  EXPECT_EQ(parameter_name(tied, 2, -1, "fc2.weight"), "layers.2.fc2.weight");
  EXPECT_EQ(parameter_name(experts, 2, 1, "fc1.bias"), "layers.2.experts.1.fc1.bias");
  EXPECT_EQ(parameter_name(experts, 2, 1, "norm.bias"), "layers.2.norm.bias");
}

}  // namespace
}  // namespace resumecheck
