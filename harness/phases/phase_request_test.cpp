// Whatever is written for the ranks is read back the same, and a damaged request is named.
#include "harness/phases/phase_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/phases/fault.h"
#include "harness/state/error.h"
#include "harness/state/file.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

using testing::HasSubstr;

Scenario scenario() {
  Scenario scenario;
  scenario.name = "subject/x";
  scenario.file = "x.py";
  scenario.carrier = "py";
  scenario.adapter_options["torchao"] = {{"wrap", std::string("none")}, {"n", std::int64_t{3}}};
  scenario.settings.seed = (1ULL << 63) + 5;
  scenario.settings.parameters = {{"z", {4, 2}}, {"a", {}}};
  scenario.settings.optimizer.lr = 0.1;
  scenario.settings.optimizer.beta2 = 0.95;
  scenario.settings.model = {"layernorm_mlp", 3, 48, 96, true, 4, 0.5, {"*.bias"}, 2, 5};
  scenario.settings.optimizer.groups = {{{"*.bias", "*.norm.*"}, 0.2, 0}, {{"a"}, 0.3, 0.1}};
  scenario.settings.optimizer.schedule = "linear_warmup";
  scenario.settings.optimizer.schedule_steps = 8;
  scenario.settings.optimizer.clip_norm = 0.75;
  scenario.settings.loss_scale = {1024, 2, 448};
  scenario.settings.data = "stream";
  scenario.settings.resumes = 3;
  scenario.settings.fp8 = {"delayed", 3, "most_recent", -2, "e4m3", "unfused", false};
  scenario.settings.gradients = "model";
  scenario.settings.accumulate = 4;
  scenario.settings.save_after = 2;
  scenario.settings.save_format = "";  // none given
  return scenario;
}

Case case_of(const Scenario& scenario) {
  Case c;
  c.scenario = std::make_shared<const Scenario>(scenario);
  c.adapter = "torchao";
  c.from = Mesh::parse("rep2dp2");
  c.onto = Mesh::parse("dp1");
  return c;
}

TEST(PhaseRequestTest, SurvivesTheFile) {
  const TemporaryFolder folder;
  const PhaseRequest wrote =
      resume_run_requests(case_of(scenario()), folder / "save", folder / "resume").front();
  write_phase_request(folder / "request.json", wrote);
  const PhaseRequest read = read_phase_request(folder / "request.json");
  EXPECT_EQ(read.phase, "resume_run");
  EXPECT_EQ(read.case_name, wrote.case_name);
  EXPECT_EQ(read.adapter, "torchao");
  EXPECT_EQ(read.options, wrote.options);
  EXPECT_EQ(read.mesh, wrote.mesh);
  EXPECT_EQ(read.save_mesh.text(), "rep2dp2");
  EXPECT_EQ(read.settings, wrote.settings) << "as written, not sorted; seeds have 64 bits";
  EXPECT_EQ(read.init_seed, wrote.settings.seed + 1);
  EXPECT_EQ(read.settings.save_format, "dcp") << "the adapter's first format";
  EXPECT_EQ(read.checkpoint, folder / "save/checkpoint");
  EXPECT_EQ(read.states, folder / "resume/states");
  EXPECT_EQ(read.records, folder / "resume/records");
  EXPECT_EQ(read.next_checkpoint, folder / "resume/checkpoint");
  EXPECT_TRUE(read.scenario_file.is_absolute());
}

TEST(PhaseRequestTest, ResumesInARowTakeTurnsBetweenTheMeshes) {
  const auto resumes = resume_run_requests(case_of(scenario()), "/save", "/resume");
  ASSERT_EQ(resumes.size(), 3U);
  const char* meshes[] = {"dp1", "rep2dp2", "dp1"};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(resumes[i].mesh.text(), meshes[i]);
    EXPECT_EQ(resumes[i].save_mesh.text(), meshes[(i + 1) % 2]);
    EXPECT_EQ(resumes[i].settings.save_after, 2 + static_cast<std::int64_t>(i));
    EXPECT_EQ(resumes[i].init_seed, resumes[i].settings.seed + 1 + i)
        << "nothing right by accident";
    EXPECT_EQ(resumes[i].checkpoint, i == 0 ? "/save/checkpoint" : resumes[i - 1].next_checkpoint);
  }
  EXPECT_EQ(resumes[0].settings.train_until, 3);
  EXPECT_EQ(resumes[1].settings.train_until, 4);
  EXPECT_EQ(resumes[2].settings.train_until, 6);
  EXPECT_TRUE(resumes[2].next_checkpoint.empty()) << "nobody resumes from it";
  EXPECT_NE(resumes[0].states, resumes[1].states);
}

TEST(PhaseRequestTest, SaveRunStartsFromTheScenariosSeed) {
  const PhaseRequest request = save_run_request(case_of(scenario()), "folder");
  EXPECT_EQ(request.init_seed, request.settings.seed);
  EXPECT_EQ(request.mesh, request.save_mesh);
}

std::string message_of(const std::string& text) {
  const TemporaryFolder folder;
  write_file(folder / "request.json", text);
  try {
    read_phase_request(folder / "request.json");
  } catch (const Error& problem) {
    EXPECT_EQ(problem.kind(), Error::Kind::harness);
    return problem.what();
  }
  return "no error";
}

TEST(PhaseRequestTest, MistakesNameFileAndKey) {
  EXPECT_THAT(message_of("{"), HasSubstr("request.json"));
  EXPECT_THAT(message_of(R"({"schema": 2})"), HasSubstr("key schema is not 1"));
  EXPECT_THAT(message_of(R"({"schema": 1})"), HasSubstr("key phase is missing"));
  EXPECT_THAT(message_of(R"({"schema": 1, "phase": 7})"),
              HasSubstr("key phase has the wrong type"));
  EXPECT_THAT(message_of(R"({"schema": 1, "phase": "train"})"), HasSubstr("neither save_run nor"));
  const TemporaryFolder folder;
  PhaseRequest request = save_run_request(case_of(scenario()), folder.path());
  write_phase_request(folder / "r.json", request);
  std::string text = read_file(folder / "r.json");
  text.replace(text.find("\"block\""), 7, "\"blocc\"");
  EXPECT_THAT(message_of(text), HasSubstr("key settings.optimizer.block is missing"));
}

TEST(FaultTest, GoesToThePhaseInWhichItHappens) {
  const Settings settings = scenario().settings;
  const Mesh mesh = Mesh::parse("dp4");
  const std::vector<FaultSpec> faults = {
      {"kill_rank", 1, "save_run step 2"},       {"hang_rank", 2, "save"},
      {"exit_early", std::nullopt, ""},          {"raise_exception", 0, ""},
      {"truncate_checkpoint", std::nullopt, ""}, {"stale_shard", std::nullopt, ""}};
  const auto saving = faults_of_phase(faults, "save_run", mesh, settings);
  ASSERT_EQ(saving.size(), 3u);
  EXPECT_EQ(saving[0].name, "kill_rank");
  EXPECT_EQ(saving[1].name, "hang_rank");
  EXPECT_EQ(saving[2].name, "stale_shard") << "a defect is told to both phases";
  const auto resuming = faults_of_phase(faults, "resume_run", mesh, settings);
  ASSERT_EQ(resuming.size(), 3u);
  EXPECT_EQ(resuming[0].rank, 3) << "the last rank where none is named";
  EXPECT_EQ(resuming[0].at, "step 3") << "the first step after the save";
  EXPECT_EQ(resuming[1].at, "load");
  EXPECT_EQ(resuming[2].name, "stale_shard");
}

TEST(FaultTest, RankThatTheMeshLacksIsAnError) {
  EXPECT_THROW(faults_of_phase({{"kill_rank", 1, "load"}}, "resume_run", Mesh::parse("dp1"), {}),
               Error);
}

TEST(FaultTest, StepThatTheRunLacksIsAnError) {
  const Settings settings;  // saved after 3, trained until 6
  const Mesh mesh = Mesh::parse("dp1");
  for (const char* never : {"step 3", "step 7", "save_run step 7"}) {
    for (const char* phase : {"save_run", "resume_run"}) {
      EXPECT_THROW(faults_of_phase({{"kill_rank", 0, never}}, phase, mesh, settings), Error)
          << never << " never comes, so the run would survive the fault";
    }
  }
  EXPECT_EQ(faults_of_phase({{"kill_rank", 0, "step 6"}}, "resume_run", mesh, settings).size(), 1u);
}

TEST(FaultTest, IsParsedFromTheCommandLine) {
  const FaultSpec fault = parse_fault("kill_rank:2:save_run step 2");
  EXPECT_EQ(fault.name, "kill_rank");
  EXPECT_EQ(fault.rank, 2);
  EXPECT_EQ(fault.at, "save_run step 2");
  EXPECT_FALSE(parse_fault("hang_rank").rank);
  EXPECT_EQ(parse_fault("hang_rank::load").at, "load");
  EXPECT_THROW(parse_fault("hang_rank:one"), Error);
  EXPECT_THROW(parse_fault("hang_rank:0:lod"), Error);
  EXPECT_THROW(parse_fault("stale_shard:0"), Error) << "the rank would be ignored";
  EXPECT_THROW(parse_fault("stale_shard::load"), Error) << "the moment would be ignored";
}

}  // namespace
}  // namespace resumecheck
