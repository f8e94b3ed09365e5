// A model that is really trained, and its FP8 state: the same bits on every mesh, in any number of
// micro-batches, on every instruction set and by the slow twin, and again after a resume. A
// checkpoint that does not fit is refused by module and field.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "harness/adapters/reference/model_step.h"
#include "harness/adapters/reference/reference.h"
#include "harness/compare/bit_compare.h"
#include "harness/ranks/thread_communicator.h"
#include "harness/scenario/model_schema.h"
#include "harness/state/assembly.h"
#include "harness/state/expect_error.h"
#include "harness/state/temporary_folder.h"
#include "kernels/float_bits.h"
#include "kernels/philox.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kEverything = {"param", "master", "moment1", "moment2",
                                              "fp8",   "step",   "lr"};

Settings model_settings() {
  Settings settings;
  settings.seed = 11;
  settings.model.kind = "layernorm_mlp";
  settings.parameters = parameters_of(settings.model);
  settings.param_dtype = "bf16";
  settings.gradients = "model";
  settings.optimizer.lr = 0.01;
  settings.optimizer.block = 64;
  settings.optimizer.min_quantised_elements = 512;
  return settings;
}

Settings with_fp8(Settings settings) {
  settings.fp8.recipe = "delayed";
  settings.fp8.amax_history_len = 2;
  return settings;
}

struct Job {
  std::string mesh = "dp1";
  std::int64_t steps = 3;
  std::shared_ptr<const Arithmetic> arithmetic = host_arithmetic();
  fs::path load = {}, save = {};
};

AssembledState after(const Settings& settings, const Job& job) {
  const Mesh mesh = Mesh::parse(job.mesh);
  std::vector<RankState> states(static_cast<std::size_t>(mesh.world()));
  run_ranks(mesh.world(), [&](Communicator& ranks) {
    ReferenceRun run(settings, settings.seed + (job.load.empty() ? 0 : 1), mesh, ranks, {},
                     job.arithmetic);
    if (!job.load.empty()) run.load(job.load);
    for (std::int64_t step = 0; step < job.steps; ++step) run.step();
    if (!job.save.empty()) run.save(job.save);
    states[static_cast<std::size_t>(ranks.rank())] = run.state();
  });
  Assembly assembly = assemble(states);
  for (const AssemblyProblem& problem : assembly.problems) ADD_FAILURE() << problem.message;
  return std::move(assembly.assembled);
}

std::string first_difference(const AssembledState& want, const AssembledState& got) {
  const Comparison comparison = compare(want.state, got.state, kEverything);
  EXPECT_GT(comparison.tensors, 12);
  return comparison.same() ? "" : to_text(comparison.differences.front().key);
}

class Training : public testing::TestWithParam<bool> {  // with FP8
 protected:
  Training() : settings_(GetParam() ? with_fp8(model_settings()) : model_settings()) {}
  Settings settings_;
  TemporaryFolder scratch_;
};
INSTANTIATE_TEST_SUITE_P(Model, Training, testing::Bool(), [](const auto& about) {
  return std::string(about.param ? "with_fp8" : "without_fp8");
});

// A gradient that is rounded to bf16 hides the order in which its samples were added.
TEST_P(Training, IsTheSameOnEveryMesh) {
  for (const char* dtype : {"bf16", "fp32"}) {
    settings_.param_dtype = dtype;
    const AssembledState want = after(settings_, {});
    for (const char* mesh :
         {"dp2", "dp3", "dp4", "dp7", "rep2", "rep2dp2", "dp2rep2", "tp2", "tp3", "tp8", "dp2tp2",
          "tp2dp2", "pp2", "dp2pp2", "cp2", "dp2cp2", "tp2pp2", "rep2tp2pp2"}) {
      EXPECT_EQ(first_difference(want, after(settings_, {mesh})), "") << mesh << " " << dtype;
    }
  }
}

Settings with_experts(Settings settings) {
  settings.model.experts = 3;
  settings.parameters = parameters_of(settings.model);
  settings.param_dtype = "fp32";
  return settings;
}

Settings tied(Settings settings) {
  settings.model.tied = true;
  settings.model.layers = 3;
  settings.parameters = parameters_of(settings.model);
  settings.param_dtype = "fp32";
  return settings;
}

TEST(ModelWithExperts, TrainsAlikeOnEveryMeshAndByTheSlowTwin) {
  Settings settings = with_experts(model_settings());
  EXPECT_EQ(settings.parameters.size(), 2 * (2 + 3 * 4));
  const AssembledState want = after(settings, {"dp1", 3, twin_arithmetic()});
  for (const char* mesh : {"dp1", "dp3", "ep2", "ep3", "dp2ep2", "ep2dp2", "tp2ep2", "pp2ep2",
                           "dp2tp2", "cp2ep3", "pp2"}) {
    EXPECT_EQ(first_difference(want, after(settings, {mesh})), "") << mesh;
  }
  settings.accumulate = 5;
  EXPECT_EQ(first_difference(want, after(settings, {"dp2ep2"})), "") << "5 micro-batches";
}

TEST(TiedModel, TrainsAlikeOnEveryMeshAndByTheSlowTwin) {
  for (const bool fp8 : {false, true}) {
    Settings settings = tied(model_settings());
    EXPECT_EQ(settings.parameters.size(), 3 * 6 - 2);
    if (fp8) settings = with_fp8(settings);
    const AssembledState want = after(settings, {"dp1", 3, twin_arithmetic()});
    for (const char* mesh : {"dp1", "dp3", "tp2", "pp3", "pp2", "dp2pp2", "tp2dp2"}) {
      EXPECT_EQ(first_difference(want, after(settings, {mesh})), "") << mesh;
    }
  }
}

// The state of a stage, of an expert and of a column is that rank's alone: nobody holds it all.
TEST(ModelOnAMesh, ARankHoldsItsOwnPartOnly) {
  const Settings settings = with_experts(model_settings());
  const auto held = [&](const char* mesh, const char* parameter) {
    const AssembledState state = after(settings, {mesh, 1});
    std::vector<std::int64_t> elements;
    for (const HeldBox& box : state.holders.at({parameter, "param"})) {
      elements.push_back(box.box.element_count());
    }
    return elements;
  };
  using Elements = std::vector<std::int64_t>;
  const char* fc2 = "layers.1.experts.2.fc2.weight";
  EXPECT_EQ(held("pp2", fc2), Elements{24 * 48});
  EXPECT_EQ(held("ep3", fc2), Elements{24 * 48});
  EXPECT_EQ(held("tp2", fc2), (Elements{24 * 24, 24 * 24}));
  EXPECT_EQ(held("ep3", "layers.1.norm.weight"), (Elements{24, 24, 24}));
  const AssembledState stages = after(settings, {"pp2", 1});
  EXPECT_EQ(stages.holders.at({fc2, "step"}).size(), 1U) << "nobody tells what he does not hold";
}

TEST_P(Training, IsTheSameInAnyNumberOfMicroBatches) {
  settings_.param_dtype = "fp32";
  const AssembledState want = after(settings_, {});
  for (const std::int64_t batches : {2, 3, 5, 24}) {
    settings_.accumulate = batches;
    EXPECT_EQ(first_difference(want, after(settings_, {"dp1"})), "") << batches;
    EXPECT_EQ(first_difference(want, after(settings_, {"rep2dp2"})), "") << batches;
  }
}

TEST_P(Training, IsTheSameOnEveryInstructionSetAndByTheSlowTwin) {
  for (const char* master : {"", "fp32"}) {
    settings_.master_dtype = master;
    const AssembledState want = after(settings_, {"dp1", 3, twin_arithmetic()});
    for (const auto& build : host_arithmetics()) {
      EXPECT_EQ(first_difference(want, after(settings_, {"dp1", 3, build})), "") << build->name();
      EXPECT_EQ(first_difference(want, after(settings_, {"dp3", 3, build})), "") << build->name();
    }
  }
}

TEST_P(Training, GoesOnAfterAResumeOnAnotherMesh) {
  for (const char* master : {"", "fp32"}) {
    settings_.master_dtype = master;
    const fs::path folder = scratch_ / (std::string("checkpoint") + master);
    after(settings_, {"dp3", 2, host_arithmetic(), {}, folder});
    const AssembledState want = after(settings_, {"dp1", 5});
    for (const char* mesh : {"dp1", "dp2", "rep2dp2"}) {
      EXPECT_EQ(first_difference(want, after(settings_, {mesh, 3, host_arithmetic(), folder})), "")
          << mesh;
    }
  }
}

TEST_P(Training, EveryParameterIsTrained) {
  const AssembledState before = after(settings_, {"dp1", 0}), now = after(settings_, {"dp1", 3});
  for (const auto& parameter : settings_.parameters) {
    const TensorKey key = {parameter.first, "param"};
    EXPECT_NE(before.state.tensors.at(key).bytes, now.state.tensors.at(key).bytes) << key.name;
  }
}

// The master is finer than what is multiplied: the amax of a weight is that of its bf16 rounding.
TEST(Model, MultipliesTheRoundingOfAMaster) {
  Settings settings = with_fp8(model_settings());
  settings.master_dtype = "fp32";
  const Bytes param =
      after(settings, {"dp2", 2}).state.tensors.at({"layers.1.fc1.weight", "param"}).bytes;
  float largest = 0;
  for (std::size_t at = 0; at < param.size(); at += 2) {
    std::uint16_t half;
    std::memcpy(&half, param.data() + at, 2);
    largest = std::max(largest, std::fabs(kernels::widen_bf16(half)));
  }
  const AssembledState next = after(settings, {"dp2", 3});
  float newest;
  const Bytes& history = next.state.tensors.at({"layers.1", "fp8.amax_history.forward"}).bytes;
  std::memcpy(&newest, history.data() + 4 * (6 + kernels::fc1_weight), 4);
  EXPECT_EQ(newest, largest);
}

TEST(Model, SamplesAreDividedOverAllDataRanks) {
  const Mesh mesh = Mesh::parse("rep2dp2");
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(samples_of(mesh, rank).first, 6 * rank) << "replicas see other data";
    EXPECT_EQ(samples_of(mesh, rank).last, 6 * rank + 6);
  }
  EXPECT_EQ(samples_of(Mesh::parse("dp2rep2"), 1).first, 12) << "rep 1, dp 0";
  EXPECT_EQ(samples_of(Mesh::parse("dp7"), 6).first, samples_of(Mesh::parse("dp7"), 6).last);
}

// ---- injected amaxes

Settings injected_settings() {
  Settings settings = with_fp8(model_settings());
  settings.gradients = "order_free";
  settings.fp8.amax_history_len = 3;
  return settings;
}

float element(const AssembledState& state, const char* part, std::size_t index) {
  float value;
  const Bytes& bytes = state.state.tensors.at({"layers.1", part}).bytes;
  std::memcpy(&value, bytes.data() + 4 * index, 4);
  return value;
}

TEST(InjectedAmax, BecomesTheHistoryAndTheScale) {
  Settings settings = injected_settings();
  settings.fp8.amax_compute_algo = "most_recent";
  for (const char* mesh : {"dp1", "dp3", "rep2dp2"}) {
    const AssembledState state = after(settings, {mesh, 2});
    const float amax = kernels::amax_value(11, 1, 2, 4);
    EXPECT_EQ(element(state, "fp8.amax_history.forward", 2 * 6 + 4), amax) << mesh;
    EXPECT_EQ(element(state, "fp8.scale.forward", 4), 448 / amax) << mesh;
    EXPECT_EQ(element(state, "fp8.scale_inv.forward", 4), 1 / (448 / amax)) << mesh;
    const float backward = kernels::amax_value(11, 1, 2, 64 + 2);
    EXPECT_EQ(element(state, "fp8.scale.backward", 2), 57344 / backward) << mesh;
    EXPECT_EQ(element(state, "fp8.scale.forward", 2), 1) << "an output's column is not used";
  }
}

TEST(InjectedAmax, IsTheSameByTheSlowTwinWhateverTheRecipe) {
  for (const char* update : {"fused", "unfused"}) {
    for (const char* algorithm : {"max", "most_recent"}) {
      for (const std::int64_t history : {1, 2, 16}) {
        Settings settings = injected_settings();
        settings.fp8 = {"delayed", history, algorithm, 3, "e4m3", update, true};
        const AssembledState want = after(settings, {"dp1", 4, twin_arithmetic()});
        EXPECT_EQ(first_difference(want, after(settings, {"dp2", 4})), "")
            << update << " " << algorithm << " " << history;
      }
    }
  }
}

TEST(PerRankScales, AreEachRanksOwnAndSurvive) {
  Settings settings = injected_settings();
  settings.fp8.reduce_amax = false;
  const TemporaryFolder scratch;
  after(settings, {"dp2", 3, host_arithmetic(), {}, scratch / "checkpoint"});
  const AssembledState want = after(settings, {"dp2", 5});
  const auto& tensors = want.state.tensors;
  EXPECT_NE(tensors.at({"layers.0@rank0", "fp8.scale.forward"}).bytes,
            tensors.at({"layers.0@rank1", "fp8.scale.forward"}).bytes);
  EXPECT_EQ(first_difference(
                want, after(settings, {"dp2", 2, host_arithmetic(), scratch / "checkpoint"})),
            "");
  expect_error(Error::Kind::subject, {"fp8.amax_history.forward of layers.0@rank2"}, [&] {
    after(settings, {"dp3", 0, host_arithmetic(), scratch / "checkpoint"});
  });
}

// ---- a checkpoint of something else

class Misfit : public testing::Test {
 protected:
  Misfit() { after(settings_, {"dp2", 2, host_arithmetic(), {}, scratch_ / "checkpoint"}); }
  void refused(std::initializer_list<std::string> words) {
    expect_error(Error::Kind::subject, words, [&] {
      after(settings_, {"dp1", 0, host_arithmetic(), scratch_ / "checkpoint"});
    });
  }
  Settings settings_ = injected_settings();
  TemporaryFolder scratch_;
};

TEST_F(Misfit, AnotherHistoryLengthIsNamed) {
  settings_.fp8.amax_history_len = 4;
  refused({"fp8.amax_history.forward of layers.0 is F32 [3, 6], this run needs F32 [4, 6]"});
}

TEST_F(Misfit, AnotherRecipeIsNamed) {
  settings_.fp8.margin = 1;
  refused({"fp8.recipe/layers.0 is ", "margin=0", "this run's is ", "margin=1"});
}

TEST_F(Misfit, StateThatTheRunDoesNotKeepIsNamed) {
  settings_.fp8.recipe = "";
  refused({"holds fp8.amax_history.backward of layers.0, which this run does not have"});
}

TEST_F(Misfit, WhatIsMissingOrHasOtherColumnsIsNamed) {
  const fs::path folder = scratch_ / "checkpoint";
  for (const char* damage : {"missing", "columns", "recipe"}) {
    for (int rank = 0; rank < 2; ++rank) {
      RankState state = read_rank_state(folder / state_file_name(rank));
      for (Piece& piece : state.pieces) {
        if (piece.key != TensorKey{"layers.1", "fp8.scale.backward"}) continue;
        if (std::string(damage) == "columns") {
          piece.global_shape = {2};
          piece.box = Box::whole({2});
          piece.bytes.resize(8);
        }
      }
      if (std::string(damage) == "missing") {
        std::erase_if(state.pieces, [](const Piece& piece) {
          return piece.key == TensorKey{"layers.1", "fp8.scale.backward"};
        });
      }
      if (std::string(damage) == "recipe") state.values.erase("fp8.recipe/layers.1");
      fs::create_directories(scratch_ / damage);
      write_rank_state(scratch_ / damage, state);
    }
  }
  const auto refused_as = [&](const char* damage, const std::string& words) {
    expect_error(Error::Kind::subject, {damage, words}, [&] {
      after(settings_, {"dp1", 0, host_arithmetic(), scratch_ / damage});
    });
  };
  refused_as("missing", "holds no fp8.scale.backward of layers.1");
  refused_as("columns", "fp8.scale.backward of layers.1 is F32 [2], this run needs F32 [4]");
  refused_as("recipe", "fp8.recipe/layers.1 is missing");
}

}  // namespace
}  // namespace resumecheck
