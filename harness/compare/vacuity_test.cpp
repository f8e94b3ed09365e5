#include "harness/compare/vacuity.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/compare/state_builder.h"
#include "kernels/adamw.h"

namespace resumecheck {
namespace {

// A run of one 8-bit and one plain parameter whose resume proves something.
class Vacuity : public testing::Test {
 protected:
  Vacuity() {
    fresh_ = state_at(0, "dp2");
    at_save_ = state_at(3, "dp2");
    after_load_ = state_at(3, "dp1");
    at_end_ = state_at(6, "dp2");
    resumed_end_ = state_at(6, "dp1");
    evidence_.fresh = &fresh_;
    evidence_.at_save = &at_save_;
    evidence_.after_load = &after_load_;
    evidence_.at_end = &at_end_;
    evidence_.resumed_end = &resumed_end_;
    evidence_.mesh_changed = true;
    evidence_.parts = {"param", "moment1", "step", "lr"};
    evidence_.compared_tensors = 6;
  }

  static AssembledState state_at(int step, const std::string& mesh) {
    AssembledState assembled;
    LogicalState& state = assembled.state;
    const auto amount = static_cast<float>(step);
    const auto& book = kernels::standard_codebook(kernels::Storage::map8, true);
    state.step = step;
    state.tensors[{"w", "param"}] = floats({1, 2, 3, 4 + amount});
    state.tensors[{"w", "moment1.codes"}] =
        tensor_of(Dtype::u8, {4}, std::vector<std::uint8_t>(4, step == 0 ? 0 : 200), 4);
    state.tensors[{"w", "moment1.scale"}] = floats({amount}, 4);
    state.tensors[{"w", "moment1.codebook"}] = floats({book.begin(), book.end()});
    state.tensors[{"b", "moment1.values"}] = floats({amount, -amount});
    state.tensors[{"w", "step"}] = tensor_of(Dtype::f32, {}, std::vector<float>{amount});
    state.values["lr/0"] = 0.5;
    assembled.mesh = mesh;
    assembled.world = mesh == "dp2" ? 2 : 1;
    for (const auto& [key, tensor] : state.tensors) {
      if (key.part == "param" && mesh == "dp2") {
        assembled.holders[key] = {{0, Box({0}, {2})}, {1, Box({2}, {2})}};
      } else {
        for (int rank = 0; rank < assembled.world; ++rank) {
          assembled.holders[key].push_back({rank, Box::whole(tensor.shape)});
        }
      }
    }
    return assembled;
  }

  void expect_vacuous(const std::string& words) {
    const auto reason = why_vacuous(evidence_);
    ASSERT_TRUE(reason.has_value()) << "should be vacuous: " << words;
    EXPECT_NE(reason->find(words), std::string::npos) << *reason;
    EXPECT_EQ(reason->find('\n'), std::string::npos) << *reason;
    EXPECT_NE(reason->find(": "), std::string::npos) << "says no cure: " << *reason;
  }

  AssembledState fresh_, at_save_, after_load_, at_end_, resumed_end_;
  VacuityEvidence evidence_;
};

TEST_F(Vacuity, AResumeThatProvesSomethingIsNot) {
  EXPECT_EQ(why_vacuous(evidence_), std::nullopt);
}

TEST_F(Vacuity, AGeneratorThatDecidesTheRoundingMustBeCompared) {
  evidence_.rounds_by_generator = true;
  expect_vacuous("put rng into");
  evidence_.parts.push_back("rng");
  expect_vacuous("no state has a part 'rng'");
  int drawn = 0;
  for (AssembledState* state : {&fresh_, &at_save_, &at_end_, &after_load_, &resumed_end_}) {
    state->state.values["rng/rank0"] = std::to_string(drawn++ % 3);
  }
  EXPECT_EQ(why_vacuous(evidence_), std::nullopt);
  at_save_.state.values["rng/rank0"] = fresh_.state.values["rng/rank0"];
  expect_vacuous("rng/rank0 is at the save what it is in a fresh start");
  at_save_.state.values["rng/rank0"] = at_end_.state.values["rng/rank0"];
  expect_vacuous("rng/rank0 did not change between the save and the last step");
}

TEST_F(Vacuity, AMasterCopyThatStandsStillMeansNothing) {
  float amount = 0;
  for (AssembledState* state : {&fresh_, &at_save_, &at_end_, &after_load_, &resumed_end_}) {
    state->state.tensors[{"w", "master"}] = floats({1, 2, 3, 4 + amount});
    amount += 1;
  }
  evidence_.parts.push_back("master");
  EXPECT_EQ(why_vacuous(evidence_), std::nullopt);
  at_save_.state.tensors[{"w", "master"}] = fresh_.state.tensors[{"w", "master"}];
  expect_vacuous("master of w is at the save what it is in a fresh start");
  evidence_.parameters = {{"w", {5}}};
  expect_vacuous("the shape");
}

TEST_F(Vacuity, Fp8MomentsOfZeroOfEitherSignAreZero) {
  for (AssembledState* state : {&at_save_, &after_load_}) {
    auto& tensors = state->state.tensors;
    tensors.erase({"w", "moment1.codebook"});
    tensors.erase({"b", "moment1.values"});
    tensors[{"w", "moment1.codes"}] =
        tensor_of(Dtype::f8_e4m3, {4}, std::vector<std::uint8_t>{0, 0x80, 0, 0x80}, 4);
  }
  expect_vacuous("every moment is zero");
  set_element(at_save_.state.tensors.at({"w", "moment1.codes"}), 2, std::uint8_t{1});
  const auto reason = why_vacuous(evidence_);
  EXPECT_EQ(reason.value_or("").find("every moment is zero"), std::string::npos) << *reason;
}

TEST_F(Vacuity, NothingCompared) {
  evidence_.compared_tensors = 0;
  evidence_.parts = {"param", "moment1", "step"};
  expect_vacuous("nothing was compared");
}

TEST_F(Vacuity, AComparedValueIsSomethingCompared) {
  at_save_.state.values["lr/0"] = after_load_.state.values["lr/0"] = 0.25;
  at_end_.state.values["lr/0"] = 0.125;
  evidence_.compared_tensors = 0;
  evidence_.parts = {"lr"};
  evidence_.mesh_changed = false;
  EXPECT_EQ(why_vacuous(evidence_), std::nullopt);
}

TEST_F(Vacuity, APartOnNeitherSide) {
  evidence_.parts.push_back("moment2");
  expect_vacuous("'moment2'");
  after_load_.state.tensors[{"w", "moment2.values"}] = floats({1});
  EXPECT_EQ(why_vacuous(evidence_), std::nullopt) << "on one side it is a difference, not vacuity";
  std::swap(after_load_.state.tensors, at_save_.state.tensors);
  EXPECT_EQ(why_vacuous(evidence_), std::nullopt) << "on the other side too";
}

TEST_F(Vacuity, EveryMomentZeroByItsScale) {
  set_element(at_save_.state.tensors[{"w", "moment1.scale"}], 0, 0.F);
  EXPECT_EQ(why_vacuous(evidence_), std::nullopt) << "the other moment is not zero";
  at_save_.state.tensors[{"b", "moment1.values"}] = floats({0.F, -0.F});
  expect_vacuous("every moment is zero");
}

TEST_F(Vacuity, EveryMomentZeroByItsCodes) {
  const auto& book = kernels::standard_codebook(kernels::Storage::map8, true);
  const auto zero =
      static_cast<std::uint8_t>(std::find(book.begin(), book.end(), 0.F) - book.begin());
  at_save_.state.tensors[{"w", "moment1.codes"}] =
      tensor_of(Dtype::u8, {4}, std::vector<std::uint8_t>(4, zero), 4);
  at_save_.state.tensors[{"b", "moment1.values"}] = floats({0.F, 0.F});
  expect_vacuous("every moment is zero");
  set_element(at_save_.state.tensors[{"w", "moment1.codes"}], 3, std::uint8_t{200});
  EXPECT_EQ(why_vacuous(evidence_), std::nullopt) << "one element is not zero";
}

TEST_F(Vacuity, WithoutMomentsNoneIsZero) {
  for (AssembledState* state : {&fresh_, &at_save_, &after_load_, &at_end_, &resumed_end_}) {
    std::erase_if(state->state.tensors,
                  [](const auto& entry) { return selects("moment1", entry.first.part); });
  }
  evidence_.parts = {"param", "step"};
  EXPECT_EQ(why_vacuous(evidence_), std::nullopt);
}

TEST_F(Vacuity, TheSavedStateEqualsAFreshStart) {
  evidence_.parts = {"param"};
  fresh_.state.tensors[{"w", "param"}] = at_save_.state.tensors[{"w", "param"}];
  expect_vacuous("equals a fresh start");
}

TEST_F(Vacuity, APartThatEqualsAFreshStart) {
  fresh_.state.tensors[{"w", "param"}] = at_save_.state.tensors[{"w", "param"}];
  expect_vacuous("param of w is at the save what it is in a fresh start");
  evidence_.parts = {"moment1", "moment1.codebook", "step", "lr"};
  EXPECT_EQ(why_vacuous(evidence_), std::nullopt) << "codebooks and lr need not change";
}

TEST_F(Vacuity, APartThatStandsStillAfterTheSave) {
  at_end_.state.tensors[{"b", "moment1.values"}] = at_save_.state.tensors[{"b", "moment1.values"}];
  expect_vacuous("moment1 of b did not change between the save and the last step");
}

TEST_F(Vacuity, AParameterThatNoStateHolds) {
  evidence_.parts = {"param", "lr"};
  evidence_.parameters = {{"w", {4}}};
  EXPECT_EQ(why_vacuous(evidence_), std::nullopt);
  evidence_.parameters.emplace_back("forgotten", Shape{2});
  expect_vacuous("'param' of forgotten");
}

TEST_F(Vacuity, AParameterOfWhichOnlyRowsAreHeld) {
  evidence_.parts = {"param"};
  evidence_.parameters = {{"w", {5}}};
  expect_vacuous("shape [4], but the parameter has [5]");
}

TEST_F(Vacuity, NothingChangedAfterTheSave) {
  evidence_.parts = {"param"};
  at_end_.state.tensors[{"w", "param"}] = at_save_.state.tensors[{"w", "param"}];
  expect_vacuous("nothing changed between the save and the last step");
}

TEST_F(Vacuity, TheSameStorage) {
  evidence_.same_storage = true;
  expect_vacuous("own storage");
}

TEST_F(Vacuity, AStateComparedWithItself) {
  evidence_.after_load = evidence_.at_save;
  expect_vacuous("own storage");
  evidence_.after_load = &after_load_;
  evidence_.resumed_end = evidence_.at_end;
  expect_vacuous("own storage");
}

TEST_F(Vacuity, AMeshChangeThatMovedNoBox) {
  after_load_.holders = at_save_.holders;
  expect_vacuous("holds the box it held before");
  evidence_.mesh_changed = false;
  EXPECT_EQ(why_vacuous(evidence_), std::nullopt) << "without a mesh change none has to move";
}

TEST_F(Vacuity, TheOrderInWhichRanksListTheirBoxesIsNoMove) {
  after_load_.holders = at_save_.holders;
  for (auto& [key, holders] : after_load_.holders) std::reverse(holders.begin(), holders.end());
  expect_vacuous("holds the box it held before");
}

TEST_F(Vacuity, AMoveOfWhatIsNotSelectedDoesNotCount) {
  after_load_.holders = at_save_.holders;
  after_load_.holders[{"w", "param"}] = {{0, Box({0}, {4})}};
  EXPECT_EQ(why_vacuous(evidence_), std::nullopt);
  evidence_.parts = {"moment1", "step"};
  expect_vacuous("holds the box it held before");
}

// The same run with the FP8 state of one layer.
class Fp8Vacuity : public Vacuity {
 protected:
  Fp8Vacuity() {
    evidence_.parts = {"fp8"};
    evidence_.mesh_changed = false;
    evidence_.parameters = {{"layers.0.fc1.weight", {4}}};
    float amount = 0;
    for (AssembledState* state : all()) {
      auto& tensors = state->state.tensors;
      tensors.clear();
      tensors[{"layers.0", "fp8.amax_history.forward"}] =
          tensor_of(Dtype::f32, {2, 2}, std::vector<float>{0, 0, amount, 0});
      tensors[{"layers.0", "fp8.scale.forward"}] = floats({1 + amount, 1});
      state->state.values["fp8.recipe/layers.0"] = std::string("recipe=delayed");
      amount += state == &at_save_ || state == &at_end_ ? 0.F : 1.F;
    }
  }
  std::vector<AssembledState*> all() {
    return {&fresh_, &at_save_, &after_load_, &at_end_, &resumed_end_};
  }
  void set(const char* part, const LogicalTensor& tensor) {
    for (AssembledState* state : all()) state->state.tensors[{"layers.0", part}] = tensor;
  }
};

TEST_F(Fp8Vacuity, AStateThatSawValuesProvesSomething) {
  EXPECT_EQ(why_vacuous(evidence_), std::nullopt);
}

TEST_F(Fp8Vacuity, AHistoryOfZerosProvesNothing) {
  set("fp8.amax_history.forward", tensor_of(Dtype::f32, {2, 2}, std::vector<float>(4)));
  expect_vacuous("fp8.amax_history.forward of layers.0 is at the save as in a module");
}

TEST_F(Fp8Vacuity, AScaleOfOnesProvesNothing) {
  set("fp8.scale.forward", floats({1, 1}));
  expect_vacuous("fp8.scale.forward of layers.0 is at the save as in a module");
}

TEST_F(Fp8Vacuity, AHistoryOfOneRowIsToldByTheScale) {
  set("fp8.amax_history.forward", tensor_of(Dtype::f32, {1, 2}, std::vector<float>(2)));
  EXPECT_EQ(why_vacuous(evidence_), std::nullopt);
  evidence_.parts = {"fp8.amax_history"};
  expect_vacuous("compare fp8.scale too");
}

TEST_F(Fp8Vacuity, ALayerThatIsLeftOutIsNamed) {
  evidence_.parameters.push_back({"layers.1.fc1.weight", {4}});
  expect_vacuous("no state has a part 'fp8' of layers.1");
  evidence_.parameters.back().first = "head";
  EXPECT_EQ(why_vacuous(evidence_), std::nullopt);
}

}  // namespace
}  // namespace resumecheck
