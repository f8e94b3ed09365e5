// Each mistake with what a run keeps is called by its name where it is there, and by no other.
#include "harness/compare/run_state_hypotheses.h"

#include <gtest/gtest.h>

#include "harness/compare/state_builder.h"

namespace resumecheck {
namespace {

const std::vector<std::string> kParts = {"lr", "scheduler", "loss_scaler", "data_position", "rng"};

struct Pair {
  AssembledState want, got;
  LogicalState fresh;

  Pair() {
    LogicalState& state = want.state;
    state.values = {{"lr/0", 0.1},
                    {"lr/1", 0.2},
                    {"scheduler/steps", std::int64_t{4}},
                    {"loss_scaler/scale", 64.0},
                    {"loss_scaler/growth_tracker", std::int64_t{2}}};
    state.tensors[{"data", "data_position"}] =
        tensor_of(Dtype::i64, {3}, std::vector<std::int64_t>{72, 73, 74});
    state.tensors[{"dropout", "rng"}] =
        tensor_of(Dtype::i64, {4, 2}, std::vector<std::int64_t>{7, 3, 8, 3, 9, 3, 10, 3});
    for (int rank = 0; rank < 2; ++rank) {
      want.holders[{"dropout", "rng"}].push_back({rank, Box({2 * rank, 0}, {2, 2})});
    }
    got = want;
    fresh.values = {{"loss_scaler/scale", 16.0}};
  }

  void positions(std::vector<std::int64_t> values) {
    got.state.tensors[{"data", "data_position"}] = tensor_of(Dtype::i64, {3}, values);
  }
  void generators(std::vector<std::int64_t> values) {
    got.state.tensors[{"dropout", "rng"}] = tensor_of(Dtype::i64, {4, 2}, values);
  }

  std::string first_fit() const {
    Evidence evidence;
    evidence.want = &want;
    evidence.got = &got;
    evidence.fresh = &fresh;
    const Diagnosis diagnosis = diagnose(compare(want.state, got.state, kParts), evidence);
    return diagnosis.fits.empty() ? "" : diagnosis.fits.front().name;
  }
};

TEST(RunStateHypotheses, NameWhatHappenedToAValue) {
  const auto fit = [](const char* name, const Value& value) {
    Pair pair;
    pair.got.state.values[name] = value;
    return pair.first_fit();
  };
  EXPECT_EQ(fit("scheduler/steps", std::int64_t{3}), "schedule one step behind");
  EXPECT_EQ(fit("scheduler/steps", std::int64_t{5}), "schedule one step ahead");
  EXPECT_EQ(fit("scheduler/steps", std::int64_t{9}), "");
  EXPECT_EQ(fit("loss_scaler/scale", 16.0), "loss scale reset");
  EXPECT_EQ(fit("loss_scaler/scale", 32.0), "");
  EXPECT_EQ(fit("loss_scaler/growth_tracker", std::int64_t{0}), "growth tracker reset");
  EXPECT_EQ(fit("loss_scaler/growth_tracker", std::int64_t{1}), "");
  EXPECT_EQ(fit("lr/1", 0.1), "lr of group 0 everywhere");
  EXPECT_EQ(fit("lr/1", 0.3), "");
}

TEST(RunStateHypotheses, GroupsThatChangedPlacesAreNotOneGroupsLrEverywhere) {
  Pair pair;
  std::swap(pair.got.state.values["lr/0"], pair.got.state.values["lr/1"]);
  EXPECT_EQ(pair.first_fit(), "groups swapped");
}

TEST(RunStateHypotheses, NameWhatHappenedToTheSamples) {
  const auto position = [](const std::vector<std::int64_t>& values) {
    Pair pair;
    pair.positions(values);
    return pair.first_fit();
  };
  EXPECT_EQ(position({48, 49, 50}), "data position behind");
  EXPECT_EQ(position({96, 97, 98}), "data position ahead");
  EXPECT_EQ(position({48, 49, 51}), "");
  const auto generators = [](const std::vector<std::int64_t>& values) {
    Pair pair;
    pair.generators(values);
    return pair.first_fit();
  };
  EXPECT_EQ(generators({7, 3, 7, 3, 7, 3, 7, 3}), "generator of sample 0 everywhere");
  EXPECT_EQ(generators({7, 3, 8, 3, 7, 3, 8, 3}), "generators of rank 0 everywhere");
  EXPECT_EQ(generators({7, 0, 8, 0, 9, 0, 10, 0}), "generators restarted");
  EXPECT_EQ(generators({1, 2, 3, 4, 5, 6, 7, 8}), "");
}

TEST(RunStateHypotheses, NormsOfShardsAreSmallerThanTheWholeAndTogetherAllOfIt) {
  EXPECT_TRUE(are_norms_of_shards({3, 4}, 5));
  EXPECT_TRUE(are_norms_of_shards({3, 3, 4, 4}, 5)) << "replicas";
  EXPECT_FALSE(are_norms_of_shards({3, 3}, 5));
  EXPECT_FALSE(are_norms_of_shards({3, 6}, 5));
  EXPECT_FALSE(are_norms_of_shards({}, 5));
}

}  // namespace
}  // namespace resumecheck
