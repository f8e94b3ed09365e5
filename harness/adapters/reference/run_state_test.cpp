// What a run keeps beside parameters and moments: the same on every mesh and in any number of
// micro-batches, what an obvious slow implementation gives, and missed where a checkpoint has it
// not.
#include "harness/adapters/reference/run_state.h"

#include <gtest/gtest.h>

#include <cmath>

#include "harness/adapters/reference/gradient_clipping.h"
#include "harness/adapters/reference/reference.h"
#include "harness/compare/bit_compare.h"
#include "harness/ranks/thread_communicator.h"
#include "harness/scenario/model_schema.h"
#include "harness/state/assembly.h"
#include "harness/state/error.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

const std::vector<std::string> kEverything = {
    "param",       "moment1", "moment2",   "step",      "lr",          "rng",
    "param_group", "fp8",     "scheduler", "grad_norm", "loss_scaler", "data_position"};

Settings settings_with_all_of_it() {
  Settings settings;
  settings.seed = 5;
  settings.model.kind = "layernorm_mlp";
  settings.parameters = parameters_of(settings.model);
  settings.model.dropout = 0.5;
  settings.model.frozen = {"layers.0.fc1.*"};
  settings.model.frozen_from = 2;
  settings.model.frozen_until = 3;
  settings.gradients = "model";
  settings.data = "stream";
  Settings::Optimizer& optimizer = settings.optimizer;
  optimizer.lr = 0.01;
  optimizer.block = 64;
  optimizer.min_quantised_elements = 512;
  optimizer.groups = {{{"*.bias"}, 0.01, 0}, {{"layers.1.*"}, 0.03, 0.1}};
  optimizer.schedule = "linear_warmup";
  optimizer.schedule_steps = 10;
  optimizer.clip_norm = 0.5;
  settings.loss_scale = {16, 2, 800};
  return settings;
}

AssembledState after(const Settings& settings, const std::string& mesh_text, std::int64_t steps,
                     const std::string& load = "", const std::string& save = "",
                     std::shared_ptr<const Arithmetic> arithmetic = host_arithmetic()) {
  const Mesh mesh = Mesh::parse(mesh_text);
  std::vector<RankState> states(static_cast<std::size_t>(mesh.world()));
  run_ranks(mesh.world(), [&](Communicator& ranks) {
    ReferenceRun run(settings, settings.seed + (load.empty() ? 0 : 1), mesh, ranks, {}, arithmetic);
    if (!load.empty()) run.load(load);
    for (std::int64_t step = 0; step < steps; ++step) run.step();
    if (!save.empty()) run.save(save);
    states[static_cast<std::size_t>(ranks.rank())] = run.state();
  });
  Assembly assembly = assemble(states);
  for (const AssemblyProblem& problem : assembly.problems) ADD_FAILURE() << problem.message;
  return std::move(assembly.assembled);
}

std::string first_difference(const AssembledState& want, const AssembledState& got) {
  const Comparison comparison = compare(want.state, got.state, kEverything);
  EXPECT_GT(comparison.tensors, 14);
  EXPECT_GT(comparison.values, 10);
  return comparison.same() ? "" : to_text(comparison.differences.front().key);
}

TEST(RunState, IsTheSameOnEveryMeshInAnyNumberOfMicroBatchesAndByTheSlowTwin) {
  Settings settings = settings_with_all_of_it();
  const AssembledState want = after(settings, "dp1", 7, "", "", twin_arithmetic());
  for (const char* mesh : {"dp1", "dp2", "dp5", "rep2dp2", "dp2rep2"}) {
    for (const std::int64_t batches : {1, 3}) {
      settings.accumulate = batches;
      EXPECT_EQ(first_difference(want, after(settings, mesh, 7)), "") << mesh << " " << batches;
    }
  }
}

TEST(RunState, GoesOnAfterAResumeOnAnotherMesh) {
  const Settings settings = settings_with_all_of_it();
  const TemporaryFolder scratch;
  const std::string folder = (scratch.path() / "checkpoint").string();
  after(settings, "dp3", 3, "", folder);
  const AssembledState want = after(settings, "dp1", 7);
  for (const char* mesh : {"dp1", "dp2", "rep2dp2"}) {
    EXPECT_EQ(first_difference(want, after(settings, mesh, 4, folder)), "") << mesh;
  }
}

// Each value that is told is needed: without it a load fails and names it.
TEST(RunState, ACheckpointWithoutOneOfItsValuesIsRefused) {
  const Settings settings = settings_with_all_of_it();
  const TemporaryFolder scratch;
  const std::string folder = (scratch.path() / "checkpoint").string();
  after(settings, "dp1", 2, "", folder);
  const RankState whole = read_rank_state(scratch.path() / "checkpoint" / state_file_name(0));
  for (const char* gone : {"lr/1", "param_group/2.parameters", "scheduler/steps",
                           "loss_scaler/scale", "loss_scaler/growth_tracker"}) {
    RankState less = whole;
    ASSERT_EQ(less.values.erase(gone), 1U) << gone;
    write_rank_state(folder, less);
    try {
      after(settings, "dp1", 0, folder);
      ADD_FAILURE() << gone << " was not missed";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::subject);
      EXPECT_NE(std::string(error.what()).find(gone), std::string::npos) << error.what();
    }
  }
}

TEST(RunState, AFrozenParameterStandsStillAndItsStepsDoNotCount) {
  const Settings settings = settings_with_all_of_it();
  const AssembledState before = after(settings, "dp2", 1);
  const AssembledState later = after(settings, "dp2", 3);
  for (const auto& [key, tensor] : before.state.tensors) {
    if (!selects("param", key.part) && key.part != "step") continue;
    const bool frozen = key.name.find("layers.0.fc1.") == 0;
    EXPECT_EQ(later.state.tensors.at(key).bytes == tensor.bytes, frozen) << to_text(key);
  }
}

TEST(Clipping, TakesTheNormAsALoopDoes) {
  std::map<std::string, std::vector<float>> gradients;
  for (const std::size_t count : {1U, 23U, 24U, 100U, 1152U}) {
    std::vector<float>& values = gradients["p" + std::string(count % 7, 'x')];
    for (std::size_t i = 0; i < count; ++i) {
      values.push_back(std::sin(static_cast<float>(i + count)));
    }
  }
  float sum = 0;
  for (const auto& [name, values] : gradients) {
    std::vector<float> chunks(24);
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::size_t chunk = 0;  // the last that begins at i or before
      while (chunk + 1 < 24 && (chunk + 1) * values.size() / 24 <= i) ++chunk;
      chunks[chunk] += values[i] * values[i];
    }
    float of_tensor = 0;
    for (const float chunk : chunks) of_tensor += chunk;
    sum += of_tensor;
  }
  EXPECT_EQ(norm_of(gradients), std::sqrt(sum));
  EXPECT_EQ(clip_coefficient(1, 0.5F), 1.0F);
  EXPECT_EQ(clip_coefficient(1, 4), static_cast<float>(1 / (4.0 + 1e-6)));
  EXPECT_TRUE(std::isnan(clip_coefficient(1, std::nanf(""))));
}

TEST(LossScaler, HalvesAtAnOverflowAndDoublesAfterSoManyStepsWithoutOne) {
  LossScaler scaler({8, 3, 100});
  EXPECT_FALSE(scaler.overflows({12.5F, -12.5F}));
  EXPECT_TRUE(scaler.overflows({12.6F}));
  EXPECT_TRUE(scaler.overflows({std::nanf("")}));
  const bool overflowed[] = {false, false, true, false, false, false, false};
  const double scales[] = {8, 8, 4, 4, 4, 8, 8};
  const std::int64_t counts[] = {1, 2, 0, 1, 2, 0, 1};
  for (std::size_t i = 0; i < std::size(scales); ++i) {
    scaler.update(overflowed[i]);
    std::map<std::string, Value> told;
    scaler.tell(told);
    EXPECT_EQ(told.at("loss_scaler/scale"), Value(scales[i])) << i;
    EXPECT_EQ(told.at("loss_scaler/growth_tracker"), Value(counts[i])) << i;
  }
}

TEST(Schedule, RisesToTheWholeLrAndStaysThere) {
  Settings settings;
  settings.parameters = {{"a", {4}}};
  settings.optimizer.lr = 0.1;
  settings.optimizer.schedule = "linear_warmup";
  settings.optimizer.schedule_steps = 3;
  ParameterGroups groups(settings);
  for (const double factor : {1.0 / 3, 2.0 / 3, 1.0, 1.0}) {
    groups.begin_step();
    EXPECT_EQ(groups.of("a", {}).lr, 0.1 * factor);
  }
}

}  // namespace
}  // namespace resumecheck
