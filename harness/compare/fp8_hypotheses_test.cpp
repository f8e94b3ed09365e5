// Each mistake with FP8 state is named when its bits are there, and not for bits that look alike:
// a history of zeros is a reset only beside the right scale.
#include "harness/compare/fp8_hypotheses.h"

#include <gtest/gtest.h>

#include "harness/compare/state_builder.h"

namespace resumecheck {
namespace {

const TensorKey kForward = {"layers.0", "fp8.amax_history.forward"};
const TensorKey kBackward = {"layers.0", "fp8.amax_history.backward"};
const TensorKey kScale = {"layers.0", "fp8.scale.forward"};
const TensorKey kScaleInv = {"layers.0", "fp8.scale_inv.forward"};

// A history of three rows; scales that have changed with every step.
AssembledState state_at(int step) {
  AssembledState assembled;
  auto& tensors = assembled.state.tensors;
  for (const char* direction : {"forward", "backward"}) {
    const int columns = std::string(direction) == "forward" ? 6 : 4;
    std::vector<float> history(static_cast<std::size_t>(3 * columns)), scale, scale_inv;
    for (int i = 0; i < 3 * columns && step > 0; ++i) {
      history[static_cast<std::size_t>(i)] = static_cast<float>(step * 100 + i * columns + 1);
    }
    for (int i = 0; i < columns; ++i) {
      scale.push_back(static_cast<float>(1 + step * (i + columns)));
      scale_inv.push_back(1 / scale.back());
    }
    const std::string part = std::string(".") + direction;
    tensors[{"layers.0", "fp8.amax_history" + part}] = tensor_of(Dtype::f32, {3, columns}, history);
    tensors[{"layers.0", "fp8.scale" + part}] = floats(scale);
    tensors[{"layers.0", "fp8.scale_inv" + part}] = floats(scale_inv);
  }
  assembled.state.step = step;
  return assembled;
}

class Fp8Hypotheses : public testing::Test {
 protected:
  // Best fit first.
  Diagnosis diagnosis() const {
    Evidence evidence;
    evidence.want = &want_;
    evidence.got = &got_;
    evidence.one_step_before = &before_;
    evidence.fresh = &fresh_.state;
    return diagnose(compare(want_.state, got_.state, {"fp8"}), evidence);
  }
  std::string name() const {
    const Diagnosis found = diagnosis();
    if (found.fits.empty()) return "";
    EXPECT_EQ(found.fits.front().fits, found.fits.front().of) << "explains everything that differs";
    return found.fits.front().name;
  }
  LogicalTensor& got(const TensorKey& key) { return got_.state.tensors.at(key); }
  const LogicalTensor& want(const TensorKey& key) const { return want_.state.tensors.at(key); }
  void zero(const TensorKey& key) {
    std::fill(got(key).bytes.begin(), got(key).bytes.end(), std::byte{0});
  }

  AssembledState fresh_ = state_at(0), before_ = state_at(2), want_ = state_at(3),
                 got_ = state_at(3);
};

TEST_F(Fp8Hypotheses, ExtraStateEmpty) {
  got_.state.tensors.clear();
  EXPECT_EQ(name(), "extra state empty");
  got_ = want_;
  got_.state.tensors.erase(kScale);
  EXPECT_EQ(name(), "") << "a tensor is missing, the module's state is not";
}

TEST_F(Fp8Hypotheses, ExtraStateDropped) {
  got_ = fresh_;
  EXPECT_EQ(name(), "extra state dropped");
  got(kScale) = want(kScale);
  for (const Fit& fit : diagnosis().fits) {
    EXPECT_NE(fit.name, "extra state dropped") << "something was loaded";
  }
}

TEST_F(Fp8Hypotheses, AmaxHistoryReset) {
  zero(kForward);
  zero(kBackward);
  EXPECT_EQ(name(), "amax history reset");
  got(kScale) = fresh_.state.tensors.at(kScale);
  got_.state.tensors.erase(kBackward);
  EXPECT_NE(name(), "amax history reset") << "the scale is wrong as well";
}

TEST_F(Fp8Hypotheses, AmaxHistoryOneRowOff) {
  LogicalTensor& history = got(kForward);
  std::rotate(history.bytes.begin(), history.bytes.begin() + 6 * 4, history.bytes.end());
  EXPECT_EQ(name(), "amax history one row off");
  std::rotate(history.bytes.begin(), history.bytes.begin() + 4, history.bytes.end());
  EXPECT_NE(name(), "amax history one row off") << "one row and one column";
}

TEST_F(Fp8Hypotheses, ScaleInvStale) {
  got(kScaleInv) = before_.state.tensors.at(kScaleInv);
  EXPECT_EQ(name(), "scale_inv stale");
  got(kScale) = before_.state.tensors.at(kScale);
  EXPECT_EQ(name(), "one step stale") << "the scale is old as well";
}

TEST_F(Fp8Hypotheses, ForwardAndBackwardSwapped) {
  for (int row = 0; row < 3; ++row) {
    for (int column = 0; column < 4; ++column) {
      set_element(got(kForward), row * 6 + column,
                  element<float>(want(kBackward), row * 4 + column));
      set_element(got(kBackward), row * 4 + column,
                  element<float>(want(kForward), row * 6 + column));
    }
  }
  EXPECT_EQ(name(), "forward and backward swapped");
  set_element(got(kForward), 5, 7.0F);
  set_element(got(kBackward), 3, 7.0F);
  EXPECT_NE(name(), "forward and backward swapped");
}

TEST_F(Fp8Hypotheses, Rank0sExtraState) {
  for (AssembledState* state : {&want_, &got_}) {
    state->state.tensors = {{{"layers.0@rank0", "fp8.scale.forward"}, floats({1, 2, 3})},
                            {{"layers.0@rank1", "fp8.scale.forward"}, floats({4, 5, 6})}};
  }
  got({"layers.0@rank1", "fp8.scale.forward"}) = floats({1, 2, 3});
  EXPECT_EQ(name(), "rank 0's extra state");
  got({"layers.0@rank1", "fp8.scale.forward"}) = floats({1, 2, 4});
  EXPECT_NE(name(), "rank 0's extra state");
}

std::vector<RankState> ranks_with(const std::vector<std::vector<float>>& histories) {
  std::vector<RankState> ranks;
  for (const std::vector<float>& values : histories) {
    const LogicalTensor tensor = tensor_of(Dtype::f32, {1, 2}, values);
    RankState rank;
    rank.pieces.push_back({kForward, Dtype::f32, {1, 2}, Box::whole({1, 2}), 0, tensor.bytes});
    ranks.push_back(rank);
  }
  return ranks;
}

TEST(Fp8Disagreement, TheMaximumOfTheRanksIsRight) {
  LogicalState want;
  want.tensors[kForward] = tensor_of(Dtype::f32, {1, 2}, std::vector<float>{8, 6});
  const Diagnosis found = diagnose_disagreement(kForward, ranks_with({{8, 3}, {4, 6}}), want);
  ASSERT_EQ(found.fits.size(), 1U);
  EXPECT_EQ(found.fits[0].name, "amax not reduced");
  EXPECT_EQ(found.fits[0].fits, 2);
  EXPECT_TRUE(diagnose_disagreement(kForward, ranks_with({{8, 3}, {4, 5}}), want).fits.empty());
  EXPECT_TRUE(diagnose_disagreement(kForward, ranks_with({{8, 6}, {8, 6}}), want).fits.empty())
      << "they agree";
}

}  // namespace
}  // namespace resumecheck
