// Whoever computes a step must pass everything on that a run brings: the codebook, the profile, the
// draws of stochastic rounding, master weights. A host build and the slow twin that both forgot one
// of them would agree, so each must change the result as well.
#include "harness/adapters/reference/arithmetic.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/float_bits.h"
#include "kernels/philox.h"

namespace resumecheck {
namespace {

using kernels::ParamType;
using kernels::Profile;
using kernels::Storage;

constexpr std::int64_t count = 300, block = 128, blocks = 3;

struct Choice {
  Storage storage = Storage::map8;
  ParamType type = ParamType::bf16;
  bool stochastic = false, master = false;
  Profile profile = Profile::canonical;
};

// A parameter with both ways of keeping its moments.
struct State {
  std::vector<float> param32, grad32, master;
  std::vector<std::uint16_t> param16, grad16, rounding, plain1, plain2;
  std::vector<std::uint8_t> codes1, codes2;
  std::vector<float> scale1, scale2;

  bool operator==(const State& other) const {
    return param32 == other.param32 && param16 == other.param16 && master == other.master &&
           plain1 == other.plain1 && plain2 == other.plain2 && codes1 == other.codes1 &&
           codes2 == other.codes2 && scale1 == other.scale1 && scale2 == other.scale2;
  }
};

State initial() {
  State state;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::uint64_t>(i);
    const float param = kernels::grid_value(1, kernels::Stream::init, 0, 0, at, -11);
    const float grad = kernels::grid_value(1, kernels::Stream::gradients, 0, 1, at, -11);
    state.param32.push_back(param);
    state.grad32.push_back(grad);
    state.master.push_back(param * 1.001F);
    state.param16.push_back(kernels::round_to_bf16(param));
    state.grad16.push_back(kernels::round_to_bf16(grad));
    state.rounding.push_back(kernels::rounding_bits(1, 0, 1, at));
  }
  const auto elements = static_cast<std::size_t>(count);
  state.plain1.assign(elements, 0);
  state.plain2.assign(elements, 0);
  state.codes1.assign(elements, 9);
  state.codes2.assign(elements, 5);
  state.scale1.assign(blocks, 0.125F);
  state.scale2.assign(blocks, 0.0625F);
  return state;
}

template <class Run>
Run run_of(State& state, const Choice& choice) {
  const bool bf16 = choice.type == ParamType::bf16;
  Run run;
  run.count = count;
  run.type = choice.type;
  run.param = bf16 ? static_cast<void*>(state.param16.data()) : state.param32.data();
  run.grad = bf16 ? static_cast<const void*>(state.grad16.data()) : state.grad32.data();
  run.rounding = choice.stochastic ? state.rounding.data() : nullptr;
  run.master = choice.master ? state.master.data() : nullptr;
  return run;
}

OptimizerStep step_with(Profile profile) {
  OptimizerStep step;
  step.settings.profile = profile;
  step.settings.lr = 0.03;
  step.settings.weight_decay = 0.1;
  step.number = 3;
  return step;
}

State after_quantised(const Arithmetic& arithmetic, const Choice& choice) {
  State state = initial();
  auto run = run_of<kernels::QuantisedRun>(state, choice);
  run.whole = count;
  run.block = block;
  run.storage = choice.storage;
  run.codes1 = state.codes1.data();
  run.codes2 = state.codes2.data();
  run.scale1 = state.scale1.data();
  run.scale2 = state.scale2.data();
  if (choice.storage != Storage::e4m3) {
    run.codebook1 = kernels::standard_codebook(choice.storage, true).data();
    run.codebook2 = kernels::standard_codebook(choice.storage, false).data();
  }
  EXPECT_TRUE(arithmetic.update(run, step_with(choice.profile)).empty());
  return state;
}

State after_plain(const Arithmetic& arithmetic, const Choice& choice) {
  State state = initial();
  auto run = run_of<kernels::PlainRun>(state, choice);
  run.moment_type = ParamType::bf16;
  run.moment1 = state.plain1.data();
  run.moment2 = state.plain2.data();
  arithmetic.update(run, step_with(choice.profile));
  return state;
}

std::vector<Choice> every_choice() {
  std::vector<Choice> choices;
  for (const Storage storage : {Storage::map8, Storage::map4, Storage::e4m3})
    for (const Profile profile :
         {Profile::canonical, Profile::torchao_eager, Profile::torchao_compiled}) {
      choices.push_back({storage, ParamType::fp32, false, false, profile});
      for (const bool stochastic : {false, true})
        for (const bool master : {false, true})
          choices.push_back({storage, ParamType::bf16, stochastic, master, profile});
    }
  return choices;
}

TEST(TwinArithmetic, EqualsEveryHostBuild) {
  for (const auto& host : host_arithmetics())
    for (const Choice& choice : every_choice()) {
      const std::string where = host->name() + ", storage " +
                                std::to_string(static_cast<int>(choice.storage)) + ", profile " +
                                std::to_string(static_cast<int>(choice.profile));
      EXPECT_TRUE(after_quantised(*host, choice) == after_quantised(*twin_arithmetic(), choice))
          << where << ", quantised";
      EXPECT_TRUE(after_plain(*host, choice) == after_plain(*twin_arithmetic(), choice))
          << where << ", plain";
    }
}

void each_choice_matters(const Arithmetic& arithmetic) {
  const Choice plainest;
  const State before = after_quantised(arithmetic, plainest);
  Choice other = plainest;
  other.stochastic = true;
  EXPECT_NE(after_quantised(arithmetic, other).param16, before.param16);
  other = plainest;
  other.master = true;
  EXPECT_NE(after_quantised(arithmetic, other).master, before.master);
  other = plainest;
  other.storage = Storage::map4;
  EXPECT_NE(after_quantised(arithmetic, other).codes1, before.codes1);
  other.storage = Storage::e4m3;
  EXPECT_NE(after_quantised(arithmetic, other).scale1, before.scale1);
  Choice canonical = plainest;
  canonical.type = ParamType::fp32;
  Choice compiled = canonical;
  compiled.profile = Profile::torchao_compiled;
  EXPECT_NE(after_quantised(arithmetic, compiled).param32,
            after_quantised(arithmetic, canonical).param32);
}

TEST(Arithmetic, NothingOfARunIsForgotten) {
  each_choice_matters(*host_arithmetic());
  each_choice_matters(*twin_arithmetic());
}

}  // namespace
}  // namespace resumecheck
