// The reference's whole promise: after any number of steps, whatever the mesh, whoever computed it
// and however often it was saved and loaded in between, its state is the same bits.
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>

#include "harness/adapters/reference/checkpoint_folder.h"
#include "harness/adapters/reference/reference.h"
#include "harness/adapters/reference/reference_settings.h"
#include "harness/compare/bit_compare.h"
#include "harness/ranks/thread_communicator.h"
#include "harness/state/assembly.h"
#include "harness/state/error.h"
#include "harness/state/file.h"
#include "harness/state/temporary_folder.h"
#include "kernels/float_bits.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kMeshes = {"dp1",  "dp2",     "dp3",     "dp4",  "dp5",    "dp8",
                                          "rep2", "rep2dp2", "dp2rep2", "rep3", "rep2dp3"};
const std::vector<std::string> kResumedMeshes = {"dp1", "dp2", "dp3", "dp5", "rep2", "rep2dp2"};
const std::vector<std::string> kEverything = {"param", "master", "moment1", "moment2",
                                              "step",  "lr",     "rng"};

// Each rank's part of a job; what the ranks hold in the end, assembled.
AssembledState run_on(const std::string& mesh_text,
                      const std::function<void(Communicator&, const Mesh&, RankState&)>& part) {
  const Mesh mesh = Mesh::parse(mesh_text);
  std::vector<RankState> states(static_cast<std::size_t>(mesh.world()));
  run_ranks(mesh.world(), [&](Communicator& ranks) {
    part(ranks, mesh, states[static_cast<std::size_t>(ranks.rank())]);
  });
  Assembly assembly = assemble(states);
  for (const AssemblyProblem& problem : assembly.problems) ADD_FAILURE() << problem.message;
  return std::move(assembly.assembled);
}

AssembledState trained(const Settings& settings, const std::string& mesh, std::int64_t steps,
                       std::shared_ptr<const Arithmetic> arithmetic = host_arithmetic()) {
  return run_on(mesh, [&](Communicator& ranks, const Mesh& of, RankState& state) {
    ReferenceRun run(settings, settings.seed, of, ranks, {}, arithmetic);
    for (std::int64_t step = 0; step < steps; ++step) run.step();
    state = run.state();
  });
}

void save_on(const Settings& settings, const std::string& mesh, std::int64_t steps,
             const fs::path& folder, const std::vector<std::string>& defects = {}) {
  run_on(mesh, [&](Communicator& ranks, const Mesh& of, RankState& state) {
    ReferenceRun run(settings, settings.seed, of, ranks, defects);
    for (std::int64_t step = 0; step < steps; ++step) run.step();
    run.save(folder);
    state = run.state();
  });
}

// From other initial values, so that what is not loaded shows.
AssembledState resumed(const Settings& settings, const std::string& mesh, const fs::path& folder,
                       std::int64_t more_steps, const std::vector<std::string>& defects = {}) {
  return run_on(mesh, [&](Communicator& ranks, const Mesh& of, RankState& state) {
    ReferenceRun run(settings, settings.seed + 1, of, ranks, defects);
    run.load(folder);
    for (std::int64_t step = 0; step < more_steps; ++step) run.step();
    state = run.state();
  });
}

// The same, and what was there right after the load.
AssembledState resumed_and_gone_on(const Settings& settings, const std::string& mesh,
                                   const fs::path& folder, std::int64_t more_steps,
                                   AssembledState& loaded) {
  std::vector<RankState> at_load(static_cast<std::size_t>(Mesh::parse(mesh).world()));
  AssembledState end = run_on(mesh, [&](Communicator& ranks, const Mesh& of, RankState& state) {
    ReferenceRun run(settings, settings.seed + 1, of, ranks, {});
    run.load(folder);
    at_load[static_cast<std::size_t>(ranks.rank())] = run.state();
    for (std::int64_t step = 0; step < more_steps; ++step) run.step();
    state = run.state();
  });
  loaded = assemble(at_load).assembled;
  return end;
}

std::string first_difference(const LogicalState& want, const LogicalState& got) {
  const Comparison comparison = compare(want, got, kEverything);
  if (comparison.same()) return "";
  const Difference& first = comparison.differences.front();
  return to_text(first.key) + " element " + std::to_string(first.first_index) + ": want " +
         first.want + ", got " + first.got + ", and " +
         std::to_string(comparison.differences.size() - 1) + " more tensors";
}

struct Kind {
  std::string optimizer, param_dtype, profile;
  bool stochastic_rounding = false;
  bool master = false;
};

Settings settings_of(const Kind& kind) {
  Settings settings = settings_with_every_shape();
  settings.optimizer.name = kind.optimizer;
  settings.optimizer.block = kind.optimizer == "adamw4bit" ? 128 : 256;
  settings.param_dtype = kind.param_dtype;
  settings.optimizer.profile = kind.profile;
  settings.optimizer.stochastic_rounding = kind.stochastic_rounding;
  settings.master_dtype = kind.master ? "fp32" : "";
  return settings;
}

std::string name_of_kind(const testing::TestParamInfo<Kind>& about) {
  const Kind& kind = about.param;
  return kind.optimizer + "_" + kind.param_dtype + "_" + kind.profile +
         (kind.stochastic_rounding ? "_stochastic" : "") + (kind.master ? "_master" : "");
}

class EveryKind : public testing::TestWithParam<Kind> {
 protected:
  EveryKind() : settings_(settings_of(GetParam())) {}
  Settings settings_;
  TemporaryFolder scratch_;
};
INSTANTIATE_TEST_SUITE_P(
    Reference, EveryKind,
    testing::Values(
        Kind{"adamw8bit", "fp32", "canonical"}, Kind{"adamw8bit", "bf16", "canonical"},
        Kind{"adamw8bit", "fp32", "torchao_eager"}, Kind{"adamw8bit", "bf16", "torchao_eager"},
        Kind{"adamw8bit", "fp32", "torchao_compiled"}, Kind{"adamw4bit", "fp32", "canonical"},
        Kind{"adamw4bit", "bf16", "torchao_eager"}, Kind{"adamwfp8", "fp32", "torchao_compiled"},
        Kind{"adamwfp8", "bf16", "canonical"}, Kind{"adamw", "fp32", "canonical"},
        Kind{"adamw", "bf16", "torchao_eager"}, Kind{"adamw8bit", "bf16", "canonical", true},
        Kind{"adamw4bit", "bf16", "canonical", false, true},
        Kind{"adamw", "bf16", "canonical", true, true}),
    name_of_kind);

TEST_P(EveryKind, StateAfterThreeStepsIsTheSameBitsOnEveryMesh) {
  const AssembledState want = trained(settings_, "dp1", 3);
  EXPECT_FALSE(want.state.tensors.empty());
  for (const std::string& mesh : kMeshes) {
    EXPECT_EQ(first_difference(want.state, trained(settings_, mesh, 3).state), "") << "on " << mesh;
  }
}

TEST_P(EveryKind, StateIsTheSameBitsByTheSlowTwinAndEveryInstructionSet) {
  const AssembledState want = trained(settings_, "dp1", 3, twin_arithmetic());
  for (const auto& arithmetic : host_arithmetics()) {
    EXPECT_EQ(first_difference(want.state, trained(settings_, "dp1", 3, arithmetic).state), "")
        << "by " << arithmetic->name();
    EXPECT_EQ(first_difference(want.state, trained(settings_, "dp3", 3, arithmetic).state), "")
        << "by " << arithmetic->name() << " on dp3";
  }
}

TEST_P(EveryKind, LrBetasEpsAndWeightDecayComeFromTheCheckpoint) {
  save_on(settings_, "dp2", 2, scratch_.path());
  for (double Settings::Optimizer::*const one :
       {&Settings::Optimizer::lr, &Settings::Optimizer::beta1, &Settings::Optimizer::beta2,
        &Settings::Optimizer::eps, &Settings::Optimizer::weight_decay}) {
    Settings other = settings_;
    other.optimizer.*one /= 2;
    EXPECT_EQ(first_difference(trained(settings_, "dp1", 4).state,
                               resumed(other, "dp3", scratch_.path(), 2).state),
              "");
  }
}

TEST_P(EveryKind, ResumingFromAnyMeshOnAnyOtherGoesOnAsIfNothingHadHappened) {
  const AssembledState at_save = trained(settings_, "dp1", 2);
  const AssembledState at_end = trained(settings_, "dp1", 4);
  for (const std::string& from : kResumedMeshes) {
    const fs::path folder = scratch_.path() / from;
    save_on(settings_, from, 2, folder);
    for (const std::string& onto : kResumedMeshes) {
      AssembledState loaded;
      const AssembledState end = resumed_and_gone_on(settings_, onto, folder, 2, loaded);
      EXPECT_EQ(first_difference(at_save.state, loaded.state), "")
          << from << "->" << onto << " after the load";
      EXPECT_EQ(first_difference(at_end.state, end.state), "")
          << from << "->" << onto << " two steps later";
    }
  }
}

TEST_P(EveryKind, EveryPieceOfStateChangesFromStepToStep) {
  const AssembledState before = trained(settings_, "dp1", 1);
  const AssembledState after = trained(settings_, "dp1", 2);
  for (const auto& [key, tensor] : after.state.tensors) {
    if (key.part.find("codebook") != std::string::npos) continue;
    EXPECT_NE(tensor.bytes, before.state.tensors.at(key).bytes) << to_text(key);
  }
}

TEST_P(EveryKind, TheWholeParameterDecidesWhatIsQuantised) {
  const AssembledState state = trained(settings_, "dp4", 1);
  for (const auto& [name, shape] : settings_.parameters) {
    const std::int64_t elements = element_count(shape);
    const bool quantised = settings_.optimizer.name != "adamw" && elements >= 4096 &&
                           elements % settings_.optimizer.block == 0;
    const Dtype values = settings_.param_dtype == "bf16" && GetParam().profile != "canonical"
                             ? Dtype::bf16
                             : Dtype::f32;
    for (const std::string moment : {"moment1", "moment2"}) {
      const auto& tensors = state.state.tensors;
      EXPECT_EQ(tensors.count({name, moment + ".codes"}), quantised ? 1U : 0U) << name;
      ASSERT_EQ(tensors.count({name, moment + ".values"}), quantised ? 0U : 1U) << name;
      if (quantised) continue;
      EXPECT_EQ(tensors.at({name, moment + ".values"}).dtype, values) << name;
    }
  }
}

TEST(ReferenceState, CodesHaveTheirOwnDtypeAndFp8HasNoCodebook) {
  const auto tensors = [](const char* optimizer) {
    return trained(settings_of({optimizer, "fp32", "canonical"}), "dp2", 1).state.tensors;
  };
  const auto of_8 = tensors("adamw8bit"), of_4 = tensors("adamw4bit"), fp8 = tensors("adamwfp8");
  EXPECT_EQ(of_8.at({"cut", "moment2.codebook"}).shape, Shape{256});
  EXPECT_EQ(of_4.at({"cut", "moment2.codebook"}).shape, Shape{16});
  EXPECT_EQ(of_4.at({"cut", "moment1.scale"}).shape, Shape{50});
  EXPECT_EQ(of_4.at({"cut", "moment1.codes"}).dtype, Dtype::u8);
  EXPECT_EQ(fp8.at({"cut", "moment1.codes"}).dtype, Dtype::f8_e4m3);
  EXPECT_EQ(fp8.count({"cut", "moment1.codebook"}), 0U);
}

// The parameter is the master's rounding, and the master is what is trained: without it, small
// updates of a bf16 parameter are lost.
TEST(ReferenceState, AMasterCopyIsTrainedAndTheParameterIsItsRounding) {
  const auto with = trained(settings_of({"adamw8bit", "bf16", "canonical", false, true}), "dp2", 3);
  const auto fp32 = trained(settings_of({"adamw8bit", "fp32", "canonical"}), "dp2", 3);
  const LogicalTensor& master = with.state.tensors.at({"cut", "master"});
  const LogicalTensor& param = with.state.tensors.at({"cut", "param"});
  ASSERT_EQ(master.dtype, Dtype::f32);
  ASSERT_EQ(param.dtype, Dtype::bf16);
  std::int64_t beyond_bf16 = 0;
  for (std::size_t i = 0; i < param.bytes.size() / 2; ++i) {
    float value;
    std::uint16_t rounded;
    std::memcpy(&value, master.bytes.data() + 4 * i, 4);
    std::memcpy(&rounded, param.bytes.data() + 2 * i, 2);
    ASSERT_EQ(kernels::round_to_bf16(value), rounded) << "element " << i;
    beyond_bf16 += kernels::widen_bf16(rounded) == value ? 0 : 1;
  }
  EXPECT_GT(beyond_bf16, 0);
  EXPECT_EQ(fp32.state.tensors.count({"cut", "master"}), 0U);
}

// ---- rounding by generators: the same mesh only

// Without a parameter that every rank holds: generators that have drawn unequally often round it
// in as many ways as there are ranks.
Settings rounding_by_generators() {
  Settings settings = settings_of({"adamw8bit", "bf16", "torchao_eager", true});
  std::erase_if(settings.parameters, [](const auto& one) { return one.second.empty(); });
  return settings;
}

TEST(Generators, GoOnAfterALoadOnTheSameMesh) {
  const Settings settings = rounding_by_generators();
  TemporaryFolder scratch;
  for (const std::string mesh : {"dp1", "dp3", "rep2dp2"}) {
    const fs::path folder = scratch.path() / mesh;
    save_on(settings, mesh, 2, folder);
    EXPECT_EQ(first_difference(trained(settings, mesh, 4).state,
                               resumed(settings, mesh, folder, 2).state),
              "")
        << mesh;
  }
}

TEST(Generators, AreTheStateOfARankAndMoveAtEveryStep) {
  const Settings settings = rounding_by_generators();
  const auto one = trained(settings, "dp2", 1).state, two = trained(settings, "dp2", 2).state;
  for (const char* name : {"rng/rank0", "rng/rank1"}) {
    EXPECT_NE(one.values.at(name), two.values.at(name)) << name;
  }
  Settings nearest = settings;
  nearest.optimizer.stochastic_rounding = false;
  EXPECT_EQ(trained(nearest, "dp2", 1).state.values.count("rng/rank0"), 0U);
  EXPECT_NE(first_difference(trained(nearest, "dp1", 1).state, trained(settings, "dp1", 1).state),
            "");
}

TEST(Generators, AreDrawnFromInTheOrderInWhichParametersAreDeclared) {
  const Settings settings = rounding_by_generators();
  Settings turned = settings;
  std::reverse(turned.parameters.begin(), turned.parameters.end());
  EXPECT_NE(first_difference(trained(settings, "dp1", 1).state, trained(turned, "dp1", 1).state),
            "");
}

TEST(Generators, DoNotGoOnOnAnotherMesh) {
  const Settings settings = rounding_by_generators();
  TemporaryFolder scratch;
  save_on(settings, "dp2", 2, scratch.path());
  for (const std::string mesh : {"dp1", "dp3", "rep2"}) {
    try {
      resumed(settings, mesh, scratch.path(), 0);
      ADD_FAILURE() << mesh;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::subject);
      EXPECT_NE(std::string(error.what()).find("dp2"), std::string::npos) << error.what();
    }
  }
}

// ---- another profile from the step after the save on

TEST(ProfileAfterSave, BeginsAfterTheSaveInBothRuns) {
  Settings eager = settings_of({"adamw8bit", "fp32", "torchao_eager"});
  eager.save_after = 2;
  Settings then_compiled = eager;
  then_compiled.optimizer.profile_after_save = "torchao_compiled";
  EXPECT_EQ(
      first_difference(trained(eager, "dp1", 2).state, trained(then_compiled, "dp1", 2).state), "");
  const AssembledState want = trained(then_compiled, "dp1", 4);
  EXPECT_NE(first_difference(trained(eager, "dp1", 4).state, want.state), "");
  TemporaryFolder scratch;
  save_on(then_compiled, "dp2", 2, scratch.path());
  EXPECT_EQ(first_difference(want.state, resumed(then_compiled, "dp3", scratch.path(), 2).state),
            "");
}

// ---- a state dict in memory

// A run on this mesh that loads from one trained for three steps, which then takes another.
AssembledState loaded_from_a_run_that_goes_on(const Settings& settings, const std::string& mesh,
                                              const std::vector<std::string>& defects = {},
                                              std::int64_t more_steps = 0) {
  return run_on(mesh, [&](Communicator& ranks, const Mesh& of, RankState& state) {
    ReferenceRun source(settings, settings.seed, of, ranks, defects);
    for (int step = 0; step < 3; ++step) source.step();
    ReferenceRun run(settings, settings.seed + 1, of, ranks, defects);
    run.load_from(source);
    source.step();
    for (std::int64_t step = 0; step < more_steps; ++step) run.step();
    state = run.state();
  });
}

TEST_P(EveryKind, AStateDictInMemoryIsACopyThatGoesOn) {
  for (const std::string mesh : {"dp1", "dp3"}) {
    EXPECT_EQ(first_difference(trained(settings_, mesh, 3).state,
                               loaded_from_a_run_that_goes_on(settings_, mesh).state),
              "");
    EXPECT_EQ(first_difference(trained(settings_, mesh, 5).state,
                               loaded_from_a_run_that_goes_on(settings_, mesh, {}, 2).state),
              "");
  }
}

TEST_P(EveryKind, AnAliasedStateDictHasTheSourcesMomentsOneStepLater) {
  const AssembledState later = trained(settings_, "dp2", 4);
  const AssembledState at_load = trained(settings_, "dp2", 3);
  const AssembledState aliased = loaded_from_a_run_that_goes_on(settings_, "dp2", {"alias_source"});
  EXPECT_TRUE(compare(later.state, aliased.state, {"moment1", "moment2"}).same());
  EXPECT_TRUE(compare(at_load.state, aliased.state, {"param", "master", "step", "lr"}).same());
}

TEST(StateDict, OfAnotherMeshOrModelIsAUsageError) {
  const auto alone = single_rank();
  const Settings settings = settings_of({"adamw8bit", "fp32", "canonical"});
  Settings fewer = settings;
  fewer.parameters.pop_back();
  const Mesh one = Mesh::parse("dp1");
  ReferenceRun source(settings, 1, one, *alone, {});
  ReferenceRun run(fewer, 1, one, *alone, {});
  EXPECT_THROW(run.load_from(source), Error);
}

// Both neighbours of a cut, and a rank whose whole shard lies inside one block, hold its scale.
TEST(ReferenceState, TheScaleOfACutBlockIsHeldByEveryRankThatTouchesIt) {
  Settings settings = settings_with_every_shape();
  settings.parameters = {{"cut", {8, 600}}};
  settings.optimizer.block = 1200;  // four blocks; dp8's shards are half a block each
  settings.optimizer.min_quantised_elements = 1;
  const AssembledState state = trained(settings, "dp8", 2);
  const auto& holders = state.holders.at({"cut", "moment1.scale"});
  ASSERT_EQ(holders.size(), 8U);
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(holders[static_cast<std::size_t>(rank)], (HeldBox{rank, Box({rank / 2}, {1})}));
  }
  EXPECT_EQ(first_difference(trained(settings, "dp1", 2).state, state.state), "");
}

TEST(ReferenceState, ABlockMaySpanFiveRanks) {
  Settings settings = settings_with_every_shape();
  settings.parameters = {{"wide_blocks", {10, 100}}};
  settings.optimizer.block = 500;
  settings.optimizer.min_quantised_elements = 1;
  const AssembledState want = trained(settings, "dp1", 3);
  for (const std::string mesh : {"dp3", "dp4", "dp5", "rep2dp4"}) {
    EXPECT_EQ(first_difference(want.state, trained(settings, mesh, 3).state), "") << mesh;
  }
  settings.parameters = {{"one_block", {5, 100}}};
  const AssembledState one = trained(settings, "dp1", 3);
  EXPECT_EQ(first_difference(one.state, trained(settings, "dp5", 3).state), "");
}

TEST(ReferenceState, ValuesFollowTheSeedAndTheOrderOfNamesNotTheOrderWritten) {
  Settings settings = settings_with_every_shape();
  Settings turned = settings;
  std::reverse(turned.parameters.begin(), turned.parameters.end());
  EXPECT_EQ(first_difference(trained(settings, "dp1", 2).state, trained(turned, "dp1", 2).state),
            "");
  Settings other = settings;
  other.seed = 8;
  EXPECT_NE(first_difference(trained(settings, "dp1", 2).state, trained(other, "dp1", 2).state),
            "");
}

TEST(ReferenceState, WhatTheReferenceDoesNotHaveIsAUsageError) {
  const auto kind_of_error = [](void (*change)(Settings&)) {
    Settings settings = settings_with_every_shape();
    change(settings);
    try {
      trained(settings, "dp2", 1);
    } catch (const Error& error) {
      return error.kind();
    }
    ADD_FAILURE() << "no error";
    return Error::Kind::harness;
  };
  EXPECT_EQ(kind_of_error([](Settings& s) { s.optimizer.name = "sgd"; }), Error::Kind::usage);
  EXPECT_EQ(kind_of_error([](Settings& s) { s.optimizer.profile = "x"; }), Error::Kind::usage);
  EXPECT_EQ(kind_of_error([](Settings& s) { s.param_dtype = "fp16"; }), Error::Kind::usage);
  EXPECT_EQ(kind_of_error([](Settings& s) { s.gradients = "model"; }), Error::Kind::usage);
  EXPECT_EQ(kind_of_error([](Settings& s) { s.master_dtype = "fp32"; }), Error::Kind::usage);
  EXPECT_EQ(kind_of_error([](Settings& s) { s.optimizer.stochastic_rounding = true; }),
            Error::Kind::usage);
  EXPECT_EQ(kind_of_error([](Settings& s) {
              s.param_dtype = "bf16";
              s.optimizer.stochastic_rounding = true;
              s.optimizer.profile = "torchao_compiled";
            }),
            Error::Kind::usage);
  EXPECT_EQ(kind_of_error([](Settings& s) { s.optimizer.profile_after_save = "torchao_compiled"; }),
            Error::Kind::usage)
      << "unquantised moments would change their dtype";
}

// ---- checkpoints that are not what they should be -------------------------------------------

class BadCheckpoint : public testing::Test {
 protected:
  BadCheckpoint() : settings_(settings_with_every_shape()) {
    settings_.parameters.resize(2);
    save_on(settings_, "dp2", 2, folder_);
  }

  std::string error_of_loading(const Settings& settings) {
    try {
      resumed(settings, "dp1", folder_, 0);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::subject) << error.what();
      return error.what();
    }
    return "no error";
  }
  std::string error_of_loading() { return error_of_loading(settings_); }

  Settings settings_;
  TemporaryFolder scratch_;
  fs::path folder_ = scratch_.path() / "checkpoint";
};

#define EXPECT_MENTIONS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << "in: " << (text)

TEST_F(BadCheckpoint, LoadsWhileNothingIsWrong) { EXPECT_EQ(error_of_loading(), "no error"); }

TEST_F(BadCheckpoint, MissingFolderIsNamed) {
  fs::remove_all(folder_);
  EXPECT_MENTIONS(error_of_loading(), folder_.string());
}

TEST_F(BadCheckpoint, EmptyFolderIsNamed) {
  fs::remove_all(folder_);
  fs::create_directories(folder_);
  EXPECT_MENTIONS(error_of_loading(), state_file_name(0));
}

TEST_F(BadCheckpoint, MissingRankIsNamed) {
  fs::remove(folder_ / state_file_name(1));
  EXPECT_MENTIONS(error_of_loading(), state_file_name(1));
}

TEST_F(BadCheckpoint, TruncatedFileIsNamed) {
  const fs::path file = folder_ / state_file_name(1);
  fs::resize_file(file, fs::file_size(file) - 5);
  EXPECT_MENTIONS(error_of_loading(), file.string());
}

TEST_F(BadCheckpoint, AFileOfAnotherStepDoesNotPass) {
  save_on(settings_, "dp2", 3, scratch_.path() / "later");
  fs::copy_file(scratch_.path() / "later" / state_file_name(1), folder_ / state_file_name(1),
                fs::copy_options::overwrite_existing);
  EXPECT_MENTIONS(error_of_loading(), folder_.string());
}

TEST_F(BadCheckpoint, AFileOfAnotherMeshDoesNotPass) {
  save_on(settings_, "dp3", 2, scratch_.path() / "wider");
  fs::copy_file(scratch_.path() / "wider" / state_file_name(1), folder_ / state_file_name(1),
                fs::copy_options::overwrite_existing);
  EXPECT_MENTIONS(error_of_loading(), folder_.string());
}

TEST_F(BadCheckpoint, OfAModelWithFewerParametersNamesTheMissingOne) {
  Settings more = settings_;
  more.parameters.push_back({"new.weight", {4, 4}});
  EXPECT_MENTIONS(error_of_loading(more), "new.weight");
}

TEST_F(BadCheckpoint, OfAModelWithMoreParametersNamesTheStranger) {
  Settings fewer = settings_;
  const std::string gone = fewer.parameters.back().first;
  fewer.parameters.pop_back();
  EXPECT_MENTIONS(error_of_loading(fewer), gone);
}

TEST_F(BadCheckpoint, OfAnotherShapeNamesBoth) {
  Settings other = settings_;
  other.parameters[0].second = {64, 256};
  EXPECT_MENTIONS(error_of_loading(other), "[32, 256]");
  EXPECT_MENTIONS(error_of_loading(other), "[64, 256]");
}

TEST_F(BadCheckpoint, OfAnotherDtypeNamesBoth) {
  Settings other = settings_;
  other.param_dtype = "bf16";
  EXPECT_MENTIONS(error_of_loading(other), "F32");
  EXPECT_MENTIONS(error_of_loading(other), "BF16");
}

TEST_F(BadCheckpoint, OfAnotherStorageWidthNamesTheMoment) {
  Settings other = settings_;
  other.optimizer.min_quantised_elements = 1 << 20;
  EXPECT_MENTIONS(error_of_loading(other), "moment1.values");
}

TEST_F(BadCheckpoint, OfWhichCodesScalesAndCodebookDoNotFitNamesTheTensor) {
  for (int rank = 0; rank < 2; ++rank) {
    RankState state = read_rank_state(folder_ / state_file_name(rank));
    std::erase_if(state.pieces, [](const Piece& piece) {
      return piece.key == TensorKey{"cut", "moment2.codebook"};
    });
    write_rank_state(folder_, state);
  }
  EXPECT_MENTIONS(error_of_loading(), "moment2.codebook of cut is missing");
  EXPECT_MENTIONS(error_of_loading(), folder_.string());
}

// A rank alone with its failure must not leave the others in a collective.
TEST_F(BadCheckpoint, IsAnErrorOnEveryRankOfALargerMesh) {
  fs::remove(folder_ / state_file_name(1));
  EXPECT_THROW(resumed(settings_, "dp4", folder_, 1), Error);
}

// ---- defects: each does what it says, and nothing else ---------------------------------------

class EveryDefect : public testing::Test {
 protected:
  // What differs after the load, by part.
  std::map<std::string, std::vector<Difference>> differences(const std::string& defect,
                                                             const std::string& from,
                                                             const std::string& onto) {
    const fs::path folder = scratch_.path() / (defect + from);
    save_on(settings_, from, 3, folder, {defect});
    const AssembledState want = trained(settings_, from, 3);
    const AssembledState got = resumed(settings_, onto, folder, 0, {defect});
    std::map<std::string, std::vector<Difference>> by_part;
    for (const Difference& one : compare(want.state, got.state, kEverything).differences) {
      by_part[one.key.part].push_back(one);
    }
    return by_part;
  }

  static std::vector<std::string> parts(const std::map<std::string, std::vector<Difference>>& all) {
    std::vector<std::string> names;
    for (const auto& [part, differences] : all) names.push_back(part);
    return names;
  }

  Settings settings_ = settings_with_every_shape();
  TemporaryFolder scratch_;
};
using Parts = std::vector<std::string>;

TEST_F(EveryDefect, CastMomentsGivesThemTheParametersDtypeAndKeepsIt) {
  EXPECT_EQ(parts(differences("cast_moments_to_param_dtype", "dp2", "dp3")), Parts{})
      << "fp32 parameters: nothing to cast to";
  settings_.param_dtype = "bf16";
  const auto found = differences("cast_moments_to_param_dtype", "dp2", "dp3");
  EXPECT_EQ(parts(found),
            (Parts{"moment1.scale", "moment1.values", "moment2.scale", "moment2.values"}));
  for (const auto& [part, of_part] : found) {
    for (const Difference& one : of_part) {
      EXPECT_EQ(one.kind, Difference::Kind::dtype) << to_text(one.key);
    }
  }
  const AssembledState later =
      resumed(settings_, "dp2", scratch_.path() / "cast_moments_to_param_dtypedp2", 2,
              {"cast_moments_to_param_dtype"});
  EXPECT_EQ(later.state.tensors.at({"cut", "moment1.scale"}).dtype, Dtype::bf16);
  EXPECT_EQ(later.state.tensors.at({"small", "moment1.values"}).dtype, Dtype::bf16);
}

TEST_F(EveryDefect, ScaleThroughBf16ChangesScalesAndOnlyTheirLowHalf) {
  const auto found = differences("scale_through_bf16", "dp2", "dp3");
  EXPECT_EQ(parts(found), (Parts{"moment1.scale", "moment2.scale"}));
  for (const auto& [part, of_part] : found) {
    for (const Difference& one : of_part) {
      EXPECT_EQ(one.got.substr(6, 4), "0000") << to_text(one.key) << ": " << one.got;
    }
  }
}

TEST_F(EveryDefect, SwapTwoShardsExchangesTwoShardsOfOneTensor) {
  for (const auto& [from, onto] : {std::pair{"dp2", "dp2"}, {"dp4", "dp2"}, {"dp2", "dp1"}}) {
    const auto found = differences("swap_two_shards", from, onto);
    EXPECT_EQ(parts(found), Parts{"moment1.codes"}) << from << "->" << onto;
    if (!found.empty()) {
      EXPECT_EQ(found.begin()->second.size(), 1U);
    }
  }
  EXPECT_EQ(parts(differences("swap_two_shards", "dp1", "dp1")), Parts{}) << "nothing to swap";
}

TEST_F(EveryDefect, StepRestartsSetsEveryStepToZeroAndTheDataGoOn) {
  const auto found = differences("step_restarts", "dp2", "dp3");
  ASSERT_EQ(parts(found), Parts{"step"});
  EXPECT_EQ(found.at("step").size(), settings_.parameters.size());
  for (const Difference& one : found.at("step")) {
    EXPECT_EQ(one.got.substr(0, 10), "0x00000000") << one.got;
  }
}

TEST_F(EveryDefect, StaleShardIsOneStepBehindInOneShardOnly) {
  const auto found = differences("stale_shard", "dp4", "dp1");
  EXPECT_EQ(found.count("step"), 0U);
  EXPECT_EQ(found.count("moment1.codebook"), 0U);
  ASSERT_EQ(found.count("param"), 1U);
  const AssembledState before = trained(settings_, "dp4", 2);
  const AssembledState loaded =
      resumed(settings_, "dp1", scratch_.path() / "stale_sharddp4", 0, {"stale_shard"});
  const AssembledState at_save = trained(settings_, "dp4", 3);
  const TensorKey key = {"whole_rows", "param"};
  const std::size_t shard = 8 * 256 * sizeof(float);  // of 32 rows, the second of four
  const auto part = [&](const AssembledState& state, std::size_t index) {
    const Bytes& bytes = state.state.tensors.at(key).bytes;
    return Bytes(bytes.begin() + static_cast<std::ptrdiff_t>(index * shard),
                 bytes.begin() + static_cast<std::ptrdiff_t>((index + 1) * shard));
  };
  EXPECT_EQ(part(loaded, 1), part(before, 1));
  for (const std::size_t index : {0U, 2U, 3U}) EXPECT_EQ(part(loaded, index), part(at_save, index));
}

TEST_F(EveryDefect, ZeroMomentsLeavesMomentsAsFreshAndTheRestAsSaved) {
  const auto found = differences("zero_moments", "dp2", "dp3");
  EXPECT_EQ(parts(found), (Parts{"moment1.codes", "moment1.scale", "moment1.values",
                                 "moment2.codes", "moment2.scale", "moment2.values"}));
  const AssembledState fresh = trained(settings_, "dp1", 0);
  const AssembledState loaded =
      resumed(settings_, "dp3", scratch_.path() / "zero_momentsdp2", 0, {"zero_moments"});
  EXPECT_TRUE(compare(fresh.state, loaded.state, {"moment1", "moment2"}).same());
}

TEST_F(EveryDefect, DropCodebookLeavesBothMomentsTheFirstOnes) {
  const auto found = differences("drop_codebook", "dp2", "dp3");
  EXPECT_EQ(parts(found), Parts{"moment2.codebook"});
  settings_.optimizer.name = "adamwfp8";
  EXPECT_EQ(parts(differences("drop_codebook", "dp2", "dp3")), Parts{}) << "FP8 has none";
}

TEST_F(EveryDefect, ThoseOfCodesAndScalesChangeNothingElse) {
  for (const char* optimizer : {"adamw8bit", "adamw4bit", "adamwfp8"}) {
    settings_.optimizer.name = optimizer;
    EXPECT_EQ(parts(differences("codes_off_by_one_block", "dp2", "dp3")),
              (Parts{"moment1.codes", "moment2.codes"}));
    EXPECT_EQ(parts(differences("scale_of_neighbour", "dp2", "dp3")),
              (Parts{"moment1.scale", "moment2.scale"}));
    EXPECT_EQ(parts(differences("nibbles_swapped", "dp2", "dp3")),
              std::string(optimizer) == "adamw4bit" ? (Parts{"moment1.codes", "moment2.codes"})
                                                    : Parts{});
  }
}

// A block whose largest magnitude is negative comes back smaller, as no codebook holds -1.
TEST_F(EveryDefect, RequantisingMomentsShowsInTheSignedOne) {
  for (const char* optimizer : {"adamw8bit", "adamw4bit"}) {
    settings_.optimizer.name = optimizer;
    const auto found = differences("moments_requantised_on_load", "dp2", "dp3");
    EXPECT_EQ(found.count("moment1.scale"), 1U) << optimizer;
    EXPECT_EQ(found.count("param"), 0U);
  }
}

TEST_F(EveryDefect, SmallTensorWidthFlipsInTheSmallestQuantisedParameterAndStays) {
  const auto found = differences("small_tensor_width_flips", "dp2", "dp3");
  ASSERT_EQ(parts(found), (Parts{"moment1", "moment2"}));
  for (const auto& [part, of_part] : found) {
    ASSERT_EQ(of_part.size(), 1U);
    EXPECT_EQ(of_part[0].kind, Difference::Kind::storage_width);
    EXPECT_EQ(of_part[0].key.name, "one_block_in_many");
  }
  const AssembledState later =
      resumed(settings_, "dp3", scratch_.path() / "small_tensor_width_flipsdp2", 2,
              {"small_tensor_width_flips"});
  EXPECT_EQ(later.state.tensors.count({"one_block_in_many", "moment1.values"}), 1U);
}

TEST_F(EveryDefect, MasterRederivedFromBf16LosesWhatTheParameterCannotHold) {
  EXPECT_EQ(parts(differences("master_rederived_from_bf16", "dp2", "dp3")), Parts{});
  settings_.param_dtype = "bf16";
  settings_.master_dtype = "fp32";
  EXPECT_EQ(parts(differences("master_rederived_from_bf16", "dp2", "dp3")), Parts{"master"});
}

TEST_F(EveryDefect, AnUnknownOneIsAUsageErrorThatListsTheKnown) {
  try {
    save_on(settings_, "dp1", 1, scratch_.path() / "x", {"no_such_mistake"});
    FAIL() << "an unknown defect was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::usage);
    EXPECT_MENTIONS(std::string(error.what()), "zero_moments");
  }
}

TEST(DefectNames, AreThoseTheAdapterDeclares) {
  EXPECT_EQ(defect_names(), adapter_declaration("reference").defects);
}

}  // namespace
}  // namespace resumecheck
