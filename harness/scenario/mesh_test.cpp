// The mesh algebra decides which bytes a rank holds, so an off-by-one here would be invisible: save
// and load would agree on it. The oracle is therefore outside: values of torch.chunk and numbers of
// ranks written down by hand, and the property that the boxes of a mesh tile every tensor.
#include "harness/scenario/mesh.h"

#include <gtest/gtest.h>

#include <random>

#include "harness/state/expect_error.h"

namespace resumecheck {
namespace {

using Kind = Error::Kind;

TEST(Mesh, ReadsDimsAndSizes) {
  const Mesh mesh = Mesh::parse("rep2dp4");
  EXPECT_EQ(mesh.world(), 8);
  EXPECT_EQ(mesh.size_of("rep"), 2);
  EXPECT_EQ(mesh.size_of("dp"), 4);
  EXPECT_EQ(mesh.size_of("tp"), 1);
  EXPECT_EQ(mesh.text(), "rep2dp4");
  EXPECT_EQ(Mesh::parse("dp1").world(), 1);
  EXPECT_NE(Mesh::parse("dp2rep2"), Mesh::parse("rep2dp2"));
}

TEST(Mesh, FirstDimIsTheSlowest) {
  using Coordinates = std::map<std::string, int>;
  const Mesh mesh = Mesh::parse("rep2dp3");
  EXPECT_EQ(mesh.coordinates(0), (Coordinates{{"rep", 0}, {"dp", 0}}));
  EXPECT_EQ(mesh.coordinates(2), (Coordinates{{"rep", 0}, {"dp", 2}}));
  EXPECT_EQ(mesh.coordinates(3), (Coordinates{{"rep", 1}, {"dp", 0}}));
  EXPECT_EQ(Mesh::parse("dp3rep2").coordinates(3), (Coordinates{{"dp", 1}, {"rep", 1}}));
  expect_error(Kind::harness, {"rep2dp3", "rank 6"}, [&] { mesh.coordinates(6); });
  expect_error(Kind::harness, {"rank -1"}, [&] { mesh.coordinates(-1); });
}

TEST(Mesh, RefusesWhatIsNone) {
  const std::pair<const char*, const char*> refused[] = {
      {"", "empty"},          {"dp", "has no size"},    {"dp0", "dp0"},
      {"dp02", "zeros"},      {"4", "without a dim"},   {"4dp", "without a dim"},
      {"pd4", "unknown dim"}, {"ddp4", "did you mean"}, {"dp2dp2", "twice"},
      {"dp1dp1", "twice"},    {"dp9", "more than 8"},   {"rep4dp4", "more than 8"},
      {"dp4 ", "column 4"},   {"dp-2", "has no size"},  {"dp99999999999999999999", "more than 8"},
      {"DP4", "column 1"},    {"dp4\n", "column 4"},    {"rep8dp8tp8pp8", "more than 8"}};
  for (const auto& [text, words] : refused) {
    SCOPED_TRACE(text);
    expect_error(Kind::usage, {"mesh '", words}, [&, text = text] { Mesh::parse(text); });
  }
}

TEST(Mesh, KnowsTheWordsOfLaterDims) {
  EXPECT_EQ(Mesh::parse("dp2tp2").size_of("tp"), 2);
  expect_error(Kind::usage, {"dp2tp2", "tp"}, [] {
    parameter_box({8, 8}, Mesh::parse("dp2tp2"), 0);
  });
}

TEST(Chunk, AgreesWithTorchChunk) {
  // [t.shape[0] for t in torch.chunk(torch.empty(rows), count)]; torch leaves out empty chunks.
  struct Known {
    std::int64_t rows;
    int count;
    std::vector<std::int64_t> sizes;
  };
  const Known known[] = {{512, 4, {128, 128, 128, 128}},
                         {512, 3, {171, 171, 170}},
                         {50, 4, {13, 13, 13, 11}},
                         {6, 4, {2, 2, 2, 0}},
                         {3, 4, {1, 1, 1, 0}},
                         {9, 8, {2, 2, 2, 2, 1, 0, 0, 0}},
                         {1408, 3, {470, 470, 468}},
                         {7, 1, {7}},
                         {5, 4, {2, 2, 1, 0}},
                         {1, 3, {1, 0, 0}},
                         {10, 8, {2, 2, 2, 2, 2, 0, 0, 0}}};
  for (const Known& each : known) {
    std::vector<std::int64_t> sizes;
    for (int i = 0; i < each.count; ++i) {
      const Rows rows = chunk(each.rows, each.count, i);
      sizes.push_back(rows.last - rows.first);
    }
    EXPECT_EQ(sizes, each.sizes) << each.rows << " rows in " << each.count;
  }
}

// Every element belongs to as many ranks as there are replicas, and replicas hold equal boxes.
void expect_tiled(const Shape& global, const Mesh& mesh) {
  const std::int64_t rows = global.empty() ? 1 : global[0];
  std::vector<int> holders(static_cast<std::size_t>(rows), 0);
  std::map<int, Box> of_shard;
  for (int rank = 0; rank < mesh.world(); ++rank) {
    const Box box = parameter_box(global, mesh, rank);
    ASSERT_TRUE(box.inside(global)) << to_text(box) << " of " << to_text(global);
    const auto coordinates = mesh.coordinates(rank);
    const int shard = coordinates.count("dp") ? coordinates.at("dp") : 0;
    const auto [known, added] = of_shard.emplace(shard, box);
    EXPECT_EQ(known->second, box) << "replicas of shard " << shard << " differ";
    const std::int64_t first = global.empty() ? 0 : box.offsets()[0];
    const std::int64_t count = global.empty() ? 1 : box.sizes()[0];
    for (std::int64_t row = first; row < first + count; ++row) ++holders[row];
    for (std::size_t dim = 1; dim < global.size(); ++dim) {
      EXPECT_EQ(box.offsets()[dim], 0);
      EXPECT_EQ(box.sizes()[dim], global[dim]);
    }
  }
  const int replicas = global.empty() ? mesh.world() : mesh.size_of("rep");
  for (const int count : holders) EXPECT_EQ(count, replicas) << mesh.text();
}

TEST(ParameterBox, TilesEveryTensorOnEveryMesh) {
  std::mt19937 random(1);
  const char* meshes[] = {"dp1",     "dp2",     "dp3",     "dp4",     "dp7",     "dp8",  "rep2",
                          "rep2dp2", "dp2rep2", "rep2dp4", "dp4rep2", "rep3dp2", "rep8", "rep1dp5"};
  for (const char* text : meshes) {
    const Mesh mesh = Mesh::parse(text);
    expect_tiled({}, mesh);
    for (int i = 0; i < 40; ++i) {
      Shape shape = {1 + static_cast<std::int64_t>(random() % 70)};
      while (random() % 2 == 0) shape.push_back(1 + static_cast<std::int64_t>(random() % 9));
      expect_tiled(shape, mesh);
    }
  }
}

}  // namespace
}  // namespace resumecheck
