#include "harness/state/assembly.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "harness/state/expect_error.h"
#include "harness/state/file.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

using Kind = AssemblyProblem::Kind;
using Random = std::mt19937;

std::int64_t between(Random& random, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(random);
}

LogicalTensor random_tensor(Random& random, Dtype dtype, Shape shape, std::int64_t block = 0) {
  LogicalTensor tensor{dtype, std::move(shape), block, {}};
  tensor.bytes.resize(element_count(tensor.shape) * size_of(dtype));
  for (std::byte& byte : tensor.bytes) byte = static_cast<std::byte>(random());
  return tensor;
}

Piece cut_out(const TensorKey& key, const LogicalTensor& tensor, const Box& box) {
  Piece piece{key, tensor.dtype, tensor.shape, box, tensor.block, {}};
  piece.bytes.resize(box.element_count() * size_of(tensor.dtype));
  if (!box.empty()) {
    copy_region(box, Box::whole(tensor.shape), tensor.bytes, box, piece.bytes,
                size_of(tensor.dtype));
  }
  return piece;
}

std::vector<RankState> empty_ranks(int world) {
  std::vector<RankState> ranks(world);
  for (int rank = 0; rank < world; ++rank) {
    ranks[rank].rank = rank;
    ranks[rank].world = world;
    ranks[rank].mesh = "dp" + std::to_string(world);
    ranks[rank].step = 3;
    ranks[rank].values = {{"lr/0", 0.5}};
  }
  return ranks;
}

// [2, 3] fp32 over two ranks, a row each, and a replicated step.
struct TwoRanks {
  TwoRanks() {
    Random random(4);
    tensor = random_tensor(random, Dtype::f32, {2, 3});
    step = random_tensor(random, Dtype::f32, {});
    for (int rank = 0; rank < 2; ++rank) {
      ranks[rank].pieces = {cut_out({"w", "param"}, tensor, Box({rank, 0}, {1, 3})),
                            cut_out({"w", "step"}, step, Box())};
    }
  }
  LogicalTensor tensor, step;
  std::vector<RankState> ranks = empty_ranks(2);
};

// Exactly one problem, of this kind, and its line holds these words.
void expect_problem(const Assembly& assembly, Kind kind, std::initializer_list<std::string> words) {
  ASSERT_EQ(assembly.problems.size(), 1U);
  const AssemblyProblem& problem = assembly.problems[0];
  EXPECT_EQ(problem.kind, kind) << problem.message;
  EXPECT_EQ(problem.message.find('\n'), std::string::npos) << problem.message;
  for (const std::string& word : words) {
    EXPECT_NE(problem.message.find(word), std::string::npos)
        << "the problem should say '" << word << "', but is: " << problem.message;
  }
}

TEST(Assembly, WholeRanksMakeTheTensor) {
  const TwoRanks two;
  const Assembly assembly = assemble(two.ranks);
  EXPECT_TRUE(assembly.problems.empty()) << assembly.problems[0].message;
  const AssembledState& whole = assembly.assembled;
  EXPECT_EQ(whole.state.tensors.at({"w", "param"}).bytes, two.tensor.bytes);
  EXPECT_EQ(whole.state.tensors.at({"w", "step"}).bytes, two.step.bytes);
  EXPECT_EQ(whole.state.step, 3);
  EXPECT_EQ(whole.state.values, two.ranks[0].values);
  EXPECT_EQ(whole.mesh, "dp2");
  EXPECT_EQ(whole.world, 2);
  EXPECT_EQ(whole.holders.at({"w", "param"}),
            (std::vector<HeldBox>{{0, Box({0, 0}, {1, 3})}, {1, Box({1, 0}, {1, 3})}}));
}

// Cuts a box into disjoint ones at random.
void split(Random& random, const Box& box, std::vector<Box>& parts) {
  const std::size_t dims = box.sizes().size();
  const std::size_t d = dims == 0 ? 0 : between(random, 0, dims - 1);
  if (dims == 0 || box.sizes()[d] < 2 || between(random, 0, 3) == 0) {
    parts.push_back(box);
    return;
  }
  const std::int64_t at = between(random, 1, box.sizes()[d] - 1);
  Shape front = box.sizes(), back = box.sizes(), behind = box.offsets();
  front[d] = at;
  back[d] -= at;
  behind[d] += at;
  split(random, Box(box.offsets(), front), parts);
  split(random, Box(behind, back), parts);
}

TEST(Assembly, AnyTilingByAnyRanksGivesTheOriginalBack) {
  Random random(5);
  for (int round = 0; round < 200; ++round) {
    Shape shape(between(random, 0, 3));
    for (std::int64_t& size : shape) size = between(random, 1, 9);
    const Dtype dtype = static_cast<Dtype>(between(random, 0, 14));
    const LogicalTensor tensor = random_tensor(random, dtype, shape, 4);
    std::vector<Box> boxes;
    split(random, Box::whole(shape), boxes);
    const int tiles = static_cast<int>(boxes.size());
    for (int i = between(random, 0, 3); i > 0; --i) {  // agreeing replicas, across the tiles
      Shape offsets, sizes;
      for (const std::int64_t size : shape) {
        offsets.push_back(between(random, 0, size - 1));
        sizes.push_back(between(random, 1, size - offsets.back()));
      }
      boxes.emplace_back(offsets, sizes);
    }
    std::shuffle(boxes.begin(), boxes.end(), random);
    std::vector<RankState> ranks = empty_ranks(static_cast<int>(between(random, 1, 8)));
    for (const Box& box : boxes) {
      ranks[between(random, 0, ranks.size() - 1)].pieces.push_back(
          cut_out({"w", "param"}, tensor, box));
    }
    const Assembly assembly = assemble(ranks);
    ASSERT_TRUE(assembly.problems.empty())
        << tiles << " tiles of " << to_text(shape) << ": " << assembly.problems[0].message;
    ASSERT_EQ(assembly.assembled.state.tensors.at({"w", "param"}).bytes, tensor.bytes)
        << tiles << " tiles of " << to_text(shape);
  }
}

TEST(Assembly, UnevenRowShardsOverRanksAndReplicas) {
  Random random(6);
  for (int dp = 1; dp <= 8; ++dp) {
    for (int rep = 1; rep * dp <= 8; ++rep) {
      const std::int64_t rows = between(random, 1, 20);
      const LogicalTensor tensor = random_tensor(random, Dtype::bf16, {rows, 3});
      std::vector<RankState> ranks = empty_ranks(dp * rep);
      const std::int64_t chunk = (rows + dp - 1) / dp;
      for (RankState& rank : ranks) {
        const std::int64_t first = std::min(rows, rank.rank % dp * chunk);
        const std::int64_t last = std::min(rows, first + chunk);
        rank.pieces = {cut_out({"w", "param"}, tensor, Box({first, 0}, {last - first, 3}))};
      }
      const Assembly assembly = assemble(ranks);
      ASSERT_TRUE(assembly.problems.empty()) << assembly.problems[0].message;
      ASSERT_EQ(assembly.assembled.state.tensors.at({"w", "param"}).bytes, tensor.bytes);
      for (const HeldBox& held : assembly.assembled.holders.at({"w", "param"})) {
        ASSERT_FALSE(held.box.empty()) << "a rank without rows holds nothing";
      }
    }
  }
}

TEST(Assembly, AHoleIsCountedAndPlaced) {
  TwoRanks two;
  two.ranks[1].pieces[0] = cut_out({"w", "param"}, two.tensor, Box({1, 0}, {1, 1}));
  const Assembly assembly = assemble(two.ranks);
  expect_problem(assembly, Kind::hole, {"param of w", "2 of 6", "element 4 first"});
  EXPECT_EQ(assembly.assembled.state.tensors.count({"w", "param"}), 0U)
      << "a tensor with a hole must not be compared";
}

TEST(Assembly, AHoleIsFoundThoughReplicasMakeUpTheCount) {
  TwoRanks two;
  two.ranks[1].pieces[0] = cut_out({"w", "param"}, two.tensor, Box({0, 0}, {1, 3}));
  expect_problem(assemble(two.ranks), Kind::hole, {"3 of 6", "element 3 first"});
}

// A generator's state is a rank's own: every rank tells one, and no two are alike.
TEST(Assembly, ValuesOfARanksOwnAreAllKeptAndNeedNotAgree) {
  TwoRanks two;
  two.ranks[0].values["rng/rank0"] = "a";
  two.ranks[1].values["rng/rank1"] = "b";
  const Assembly assembly = assemble(two.ranks);
  EXPECT_TRUE(assembly.problems.empty());
  EXPECT_EQ(assembly.assembled.state.values.at("rng/rank0"), Value("a"));
  EXPECT_EQ(assembly.assembled.state.values.at("rng/rank1"), Value("b"));
}

TEST(Assembly, AValueOfARanksOwnThatAnotherTellsOrThatIsMissingIsAProblem) {
  TwoRanks two;
  two.ranks[0].values["rng/rank0"] = "a";
  expect_problem(assemble(two.ranks), Kind::description_disagrees, {"'rng' on rank 0", "'' on 1"});
  two.ranks[1].values["rng/rank0"] = "a";
  expect_problem(assemble(two.ranks), Kind::description_disagrees, {"rng/rank0 is told by rank 1"});
  two.ranks[1].values.erase("rng/rank0");
  two.ranks[1].values["rng/rankx"] = "a";  // no rank: an ordinary value
  expect_problem(assemble(two.ranks), Kind::description_disagrees, {"value rng/rankx: absent"});
}

TEST(Assembly, AnAbsurdGlobalShapeIsAHoleNotAnAllocation) {
  TwoRanks two;
  for (RankState& rank : two.ranks) rank.pieces[0].global_shape = {INT64_C(1) << 50, 3};
  expect_problem(assemble(two.ranks), Kind::hole, {"element 6 first"});
}

TEST(Assembly, ReplicasThatDisagreeNameTheElementAndBothRanks) {
  TwoRanks two;
  two.step.bytes = {std::byte{0}, std::byte{0}, std::byte{0x40}, std::byte{0x40}};
  two.ranks[0].pieces[1].bytes = two.step.bytes;
  two.ranks[1].pieces[1].bytes = two.step.bytes;
  two.ranks[1].pieces[1].bytes[3] = std::byte{0x41};
  expect_problem(assemble(two.ranks), Kind::replicas_disagree,
                 {"step of w", "element 0", "0x40400000 on rank 0", "0x41400000 on rank 1"});
}

TEST(Assembly, ReplicasAreComparedElementByElement) {
  TwoRanks two;
  for (RankState& rank : two.ranks) {
    rank.pieces[0] = cut_out({"w", "param"}, two.tensor, Box::whole({2, 3}));
  }
  two.ranks[1].pieces[0].bytes[5 * 4] ^= std::byte{1};
  expect_problem(assemble(two.ranks), Kind::replicas_disagree,
                 {"element 5", "1 of 6 shared elements differ"});
}

TEST(Assembly, OverlapsThatAreNoReplicasAreComparedToo) {
  TwoRanks two;
  two.ranks[0].pieces[0] = cut_out({"w", "param"}, two.tensor, Box({0, 0}, {2, 2}));
  two.ranks[1].pieces[0] = cut_out({"w", "param"}, two.tensor, Box({0, 1}, {2, 2}));
  EXPECT_TRUE(assemble(two.ranks).problems.empty());
  two.ranks[1].pieces[0].bytes[2 * 4] ^= std::byte{1};  // [1, 1]: element 4, on both ranks
  expect_problem(assemble(two.ranks), Kind::replicas_disagree,
                 {"element 4", "1 of 2 shared elements differ"});
}

TEST(Assembly, DescriptionsThatDisagree) {
  const struct {
    const char* word;
    void (*change)(RankState&);
  } table[] = {
      {"F32 on rank 0, I32 on rank 1", [](RankState& r) { r.pieces[0].dtype = Dtype::i32; }},
      {"shape [2, 3] on rank 0, shape [3, 3] on rank 1",
       [](RankState& r) {
         r.pieces[0].global_shape = {3, 3};
       }},
      {"block 0 on rank 0, block 256 on rank 1", [](RankState& r) { r.pieces[0].block = 256; }},
      {"reaches outside",
       [](RankState& r) {
         r.pieces[0].box = Box({2, 0}, {1, 3});
       }},
      {"has 11 bytes", [](RankState& r) { r.pieces[0].bytes.resize(11); }},
  };
  for (const auto& [word, change] : table) {
    TwoRanks two;
    change(two.ranks[1]);
    const Assembly assembly = assemble(two.ranks);
    ASSERT_EQ(assembly.problems.size(), 2U) << word << ": and rank 1's rows are a hole";
    EXPECT_EQ(assembly.problems[0].kind, Kind::description_disagrees);
    EXPECT_NE(assembly.problems[0].message.find(word), std::string::npos)
        << "should say '" << word << "', but is: " << assembly.problems[0].message;
    EXPECT_EQ(assembly.problems[1].kind, Kind::hole);
  }
}

TEST(Assembly, RanksThatDisagreeAboutTheRun) {
  const struct {
    const char* word;
    void (*change)(RankState&);
  } table[] = {
      {"the mesh: dp2 on rank 0, rep2 on rank 1", [](RankState& r) { r.mesh = "rep2"; }},
      {"the world: 2 on rank 0, 3 on rank 1", [](RankState& r) { r.world = 3; }},
      {"the step: 3 on rank 0, 4 on rank 1", [](RankState& r) { r.step = 4; }},
      {"value lr/0: 0.5 on rank 0, 0.25 on rank 1", [](RankState& r) { r.values["lr/0"] = 0.25; }},
      {"value lr/0: 0.5 on rank 0, absent on rank 1", [](RankState& r) { r.values.clear(); }},
      {"value more: absent on rank 0, 1 on rank 1", [](RankState& r) { r.values["more"] = 1.0; }},
  };
  for (const auto& [word, change] : table) {
    TwoRanks two;
    change(two.ranks[1]);
    expect_problem(assemble(two.ranks), Kind::description_disagrees, {word});
  }
}

TEST(Assembly, ValuesOfOneTextAndTwoTypesDisagree) {
  TwoRanks two;
  two.ranks[0].values["lr/0"] = 1.0;
  two.ranks[1].values["lr/0"] = std::int64_t{1};
  expect_problem(assemble(two.ranks), Kind::description_disagrees, {"lr/0"});
}

TEST(Assembly, ARankThatIsMissingOrThereTwice) {
  TwoRanks two;
  two.ranks[1].rank = 0;
  const Assembly twice = assemble(two.ranks);
  ASSERT_EQ(twice.problems.size(), 2U);
  EXPECT_EQ(twice.problems[0].kind, Kind::description_disagrees);
  EXPECT_NE(twice.problems[0].message.find("of rank 0"), std::string::npos);
  EXPECT_EQ(twice.problems[1].kind, Kind::rank_missing);
  EXPECT_NE(twice.problems[1].message.find("rank 1 of 2"), std::string::npos);
  expect_problem(assemble({}), Kind::rank_missing, {"no rank"});
}

TEST(Assembly, ReadsTheFilesOfAllRanks) {
  const TemporaryFolder folder;
  const TwoRanks two;
  for (const RankState& rank : two.ranks) write_rank_state(folder.path(), rank);
  const Assembly assembly = read_states(folder.path(), 2);
  ASSERT_TRUE(assembly.problems.empty()) << assembly.problems[0].message;
  EXPECT_EQ(assembly.assembled.state.tensors.at({"w", "param"}).bytes, two.tensor.bytes);
}

TEST(Assembly, AMissingFileIsAProblemABrokenOneAnError) {
  const TemporaryFolder folder;
  const TwoRanks two;
  write_rank_state(folder.path(), two.ranks[0]);
  const Assembly assembly = read_states(folder.path(), 2);
  ASSERT_EQ(assembly.problems.size(), 2U);
  EXPECT_EQ(assembly.problems[0].kind, Kind::rank_missing);
  EXPECT_NE(assembly.problems[0].message.find("state_rank1.safetensors is missing"),
            std::string::npos)
      << assembly.problems[0].message;
  EXPECT_EQ(assembly.problems[1].kind, Kind::hole);
  write_file(folder / "state_rank1.safetensors", "{}");
  expect_error(Error::Kind::harness, {"state_rank1.safetensors", "holds 2 bytes"},
               [&] { read_states(folder.path(), 2); });
  std::filesystem::copy_file(folder / "state_rank0.safetensors", folder / "state_rank1.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  expect_error(Error::Kind::harness, {"state_rank1.safetensors", "rank 0 of 2"},
               [&] { read_states(folder.path(), 2); });
  const Assembly none = read_states(folder / "none", 2);
  EXPECT_EQ(none.problems.size(), 2U) << "two ranks, and nothing else to say";
}

}  // namespace
}  // namespace resumecheck
