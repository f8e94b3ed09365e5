// The rules of an update one by one, on histories short enough to follow with a finger, and the
// unfused one against Transformer Engine's own Python. That every build gives the slow twin's bits
// on thousands of random states is in isa_test.cpp.
#include "kernels/delayed_scaling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "kernels/float_bits.h"
#include "kernels/twin_inputs.h"

namespace resumecheck::kernels {
namespace {

constexpr float largest_float = std::numeric_limits<float>::max();

// One column.
struct Column {
  std::vector<float> history;
  float scale = 1, scale_inv = 1;

  Column& update(DelayedScaling recipe, float reduced, Fp8Format format = Fp8Format::e4m3) {
    recipe.history = static_cast<std::int64_t>(history.size());
    update_delayed_scaling(recipe, format, &reduced, {1, history.data(), &scale, &scale_inv},
                           Isa::baseline);
    return *this;
  }
};

constexpr DelayedScaling fused = {}, unfused = {false};

class BothUpdates : public testing::TestWithParam<bool> {
 protected:
  DelayedScaling recipe() const { return GetParam() ? fused : unfused; }
};
INSTANTIATE_TEST_SUITE_P(DelayedScaling, BothUpdates, testing::Bool(),
                         [](const auto& info) { return info.param ? "fused" : "unfused"; });

TEST_P(BothUpdates, RollTheHistoryAndScaleByItsMaximum) {
  const Column c = Column{{2, 7, 3, 5}}.update(recipe(), 2);
  EXPECT_EQ(c.history, (std::vector<float>{0, 3, 5, 2})) << "7, the oldest, has left";
  EXPECT_EQ(c.scale, 64.0F) << "448 / 7: it left after it was looked at";
  EXPECT_EQ(c.scale_inv, 1.0F / 64);
}

TEST_P(BothUpdates, ScaleByTheMostRecentWhereAsked) {
  DelayedScaling most_recent = recipe();
  most_recent.most_recent = true;
  EXPECT_EQ((Column{{2, 7, 3, 5}}.update(most_recent, 2).scale), 224.0F);
}

TEST_P(BothUpdates, TakeTheReducedMaximumInPlaceOfTheirOwn) {
  const Column c = Column{{2, 0, 0}}.update(recipe(), 14);
  EXPECT_EQ(c.history, (std::vector<float>{0, 0, 14}));
  EXPECT_EQ(c.scale, 32.0F);
}

TEST_P(BothUpdates, KeepNothingButTheScaleWithAHistoryOfOne) {
  const Column c = Column{{7}}.update(recipe(), 7);
  EXPECT_EQ(c.history, std::vector<float>{0});
  EXPECT_EQ(c.scale, 64.0F);
}

TEST_P(BothUpdates, UseTheLargestOfTheirFormatAndTheMargin) {
  DelayedScaling with_margin = recipe();
  with_margin.margin = 3;
  EXPECT_EQ((Column{{7, 0}}.update(recipe(), 7, Fp8Format::e5m2).scale), 8192.0F);
  EXPECT_EQ((Column{{7, 0}}.update(with_margin, 7).scale), 8.0F);
}

TEST_P(BothUpdates, KeepTheScaleWhereNoneCanBeMade) {
  for (const float amax : {INFINITY, std::nanf("")}) {
    const Column c = Column{{amax, 0}, 5}.update(recipe(), amax);
    EXPECT_EQ(c.scale, 5.0F) << amax;
    EXPECT_EQ(c.scale_inv, 0.2F) << amax;
    EXPECT_EQ(bits_of(c.history[1]), bits_of(amax)) << "it is in the history all the same";
  }
}

TEST_P(BothUpdates, StopAtTheLargestFloat) {
  const Column c = Column{{1e-40F, 0}}.update(recipe(), 1e-40F);
  EXPECT_EQ(c.scale, largest_float);
  EXPECT_EQ(c.scale_inv, 1.0F / largest_float) << "a denormal";
}

TEST_P(BothUpdates, NeedNoScaleInv) {
  std::vector<float> history = {7, 0};
  float scale = 1;
  const float reduced = 7;
  DelayedScaling two_rows = recipe();
  two_rows.history = 2;
  update_delayed_scaling(two_rows, Fp8Format::e4m3, &reduced, {1, history.data(), &scale, nullptr},
                         Isa::baseline);
  EXPECT_EQ(scale, 64.0F);
}

// Where the two differ.
TEST(DelayedScaling, RollsAColumnOfZerosOnlyUnfused) {
  const Column still = Column{{0, 7, 3}, 5}.update(fused, 0);
  EXPECT_EQ(still.history, (std::vector<float>{0, 7, 3}));
  EXPECT_EQ(still.scale, 5.0F);
  const Column rolled = Column{{0, 7, 3}, 5}.update(unfused, 0);
  EXPECT_EQ(rolled.history, (std::vector<float>{0, 3, 0}));
  EXPECT_EQ(rolled.scale, 64.0F);
}

TEST(DelayedScaling, IgnoresAReducedZeroOnlyFused) {
  EXPECT_EQ((Column{{7, 0}}.update(fused, 0).history), (std::vector<float>{0, 7}));
  EXPECT_EQ((Column{{7, 0}}.update(unfused, 0).history), (std::vector<float>{0, 0}));
}

TEST(DelayedScaling, LetsANaNInTheHistoryWinOnlyUnfused) {
  const float nan = std::nanf("");
  EXPECT_EQ((Column{{7, nan, 3}, 5}.update(fused, 7).scale), 64.0F);
  EXPECT_EQ((Column{{7, nan, 3}, 5}.update(unfused, 7).scale), 5.0F);
}

TEST(DelayedScaling, RoundsTwiceOnlyUnfused) {
  const float amax = 3.0F;
  EXPECT_EQ((Column{{amax, 0}}.update(fused, amax).scale), 448.0F / 3.0F);
  EXPECT_EQ((Column{{amax, 0}}.update(unfused, amax).scale), (1.0F / 3.0F) * 448.0F);
  EXPECT_NE((1.0F / 3.0F) * 448.0F, 448.0F / 3.0F) << "choose another amax";
}

TEST(DelayedScaling, RefusesARecipeThatMakesNoSense) {
  float value = 1;
  const ScalingState state = {1, &value, &value, nullptr};
  for (const DelayedScaling& recipe :
       {DelayedScaling{true, false, 0}, DelayedScaling{true, false, 1, 101}})
    EXPECT_THROW(update_delayed_scaling(recipe, Fp8Format::e4m3, &value, state, Isa::baseline),
                 std::invalid_argument);
  EXPECT_THROW(update_delayed_scaling({}, Fp8Format::e4m3, nullptr, state, Isa::baseline),
               std::invalid_argument);
}

// ---- Against Transformer Engine -----------------------------------------------------------------

// Zeros, infinities, NaNs, denormals and magnitudes of all kinds, from a generator that is easy to
// write again.
class Amaxes {
 public:
  float next() {
    constexpr std::uint32_t special[] = {0x7f800000U, 0x7fc00000U, 0x00000001U, 0x7f7fffffU};
    const std::uint32_t kind = word() >> 29, bits = word();
    if (kind <= 1) return 0.0F;
    if (kind == 2) return float_of(special[bits >> 30]);
    return float_of((0x20000000U + (bits >> 2)) & 0x7fffffffU);
  }

 private:
  std::uint32_t word() { return state_ = state_ * 1664525U + 1013904223U; }
  std::uint32_t state_ = 1;
};

std::uint64_t add_to_digest(std::uint64_t digest, const std::vector<float>& values) {
  for (const float value : values) {
    const std::uint32_t bits = std::isnan(value) ? 0x7fc00000U : bits_of(value);
    for (int byte = 0; byte < 4; ++byte)
      digest = (digest ^ (bits >> (8 * byte) & 0xffU)) * 0x100000001b3U;
  }
  return digest;
}

// Origin: _default_get_amax_and_update_history and _default_sf_compute of Transformer Engine 1.13.0
// (fp8.py), 2.10.0 and 2.20.2 (quantization.py), called on torch 2.8.0 and 2.15.0 tensors of six
// columns with 1, 2, 3 and 16 rows, max and most_recent, margins 0 and 3, both formats, 40 steps
// each; FNV-1a of the history and the scale after each step.
TEST(UnfusedDelayedScaling, EqualsTransformerEngines) {
  std::uint64_t digest = 0xcbf29ce484222325U;
  Amaxes amaxes;
  for (const std::int64_t rows : {1, 2, 3, 16})
    for (const bool most_recent : {false, true})
      for (const int margin : {0, 3})
        for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2}) {
          std::vector<float> history(static_cast<std::size_t>(rows) * 6), scale(6, 1.0F);
          for (int step = 0; step < 40; ++step) {
            for (std::size_t column = 0; column < 6; ++column) history[column] = amaxes.next();
            const std::vector<float> reduced(history.begin(), history.begin() + 6);
            update_delayed_scaling({false, most_recent, rows, margin}, format, reduced.data(),
                                   {6, history.data(), scale.data(), nullptr}, best_isa());
            digest = add_to_digest(add_to_digest(digest, history), scale);
          }
        }
  EXPECT_EQ(digest, 0xc611e443631ca5a7U);
}

}  // namespace
}  // namespace resumecheck::kernels
