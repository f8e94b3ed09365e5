// One case, dp2 -> dp1, three steps before the save and three after, and everything that can be
// wrong with it: each verdict, what it says, and which of two mistakes is told first.
#include "harness/phases/judgement.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <numeric>

#include "harness/phases/golden.h"
#include "harness/state/file.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kSaveAfter = 3, kTrainUntil = 6, kElements = 8;

Bytes bytes_of(const std::vector<float>& values) {
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// What element `index` of `part` is after `step` steps.
using Values = std::function<float(const std::string& part, std::int64_t step, std::int64_t index)>;

float right(const std::string& part, std::int64_t step, std::int64_t index) {
  if (part == "step") return static_cast<float>(step);
  const float scale = part == "param" ? 0.25f : 0.125f;
  return scale * static_cast<float>(step * (index + 1)) + (part == "param" ? 1.0f : 0.0f);
}

Piece piece(const std::string& part, const Shape& shape, const Box& box,
            const std::vector<float>& values) {
  Piece made;
  made.key = {"w", part};
  made.global_shape = shape;
  made.box = box;
  made.bytes = bytes_of(values);
  return made;
}

RankState rank_state(const Mesh& mesh, int rank, std::int64_t step, const Values& values) {
  RankState state;
  state.rank = rank;
  state.world = mesh.world();
  state.mesh = mesh.text();
  state.coordinates = mesh.coordinates(rank);
  state.step = step;
  const Box box = parameter_box({kElements}, mesh, rank);
  for (const std::string part : {"param", "moment1.values"}) {
    std::vector<float> mine;
    for (std::int64_t i = 0; i < box.sizes()[0]; ++i) {
      mine.push_back(values(part, step, box.offsets()[0] + i));
    }
    state.pieces.push_back(piece(part, {kElements}, box, mine));
  }
  state.pieces.push_back(piece("step", {}, Box(), {values("step", step, 0)}));
  return state;
}

RankEnd well(int rank) {
  RankEnd end;
  end.rank = rank;
  end.how = RankEnd::How::finished;
  end.record = ExitRecord{};
  end.record->ok = true;
  return end;
}

RankEnd raised(int rank, const std::string& phase, const std::string& message) {
  RankEnd end = well(rank);
  end.record->ok = false;
  end.record->phase = phase;
  end.record->exception = ExitRecord::Exception{"RuntimeError", message, ""};
  return end;
}

class JudgementTest : public testing::Test {
 protected:
  JudgementTest() {
    scenario_.name = "subject/state_survives";
    scenario_.file = folder_.path() / "scenarios/subject/state_survives.toml";
    scenario_.carrier = "toml";
    scenario_.adapters = {"reference"};
    scenario_.settings.parameters = {{"w", {kElements}}};
    scenario_.settings.save_after = kSaveAfter;
    scenario_.settings.train_until = kTrainUntil;
    scenario_.parts = {"param", "moment1", "step"};
    scenario_.oracles = {"after_load", "trajectory"};
    from_ = Mesh::parse("dp2");
    onto_ = Mesh::parse("dp1");
    for (const std::int64_t step : {0, 2, 3, 4, 5, 6}) write(true, step, right);
    for (const std::int64_t step : {3, 4, 5, 6}) write(false, step, right);
  }

  const Mesh& mesh(bool saved) const { return saved ? from_ : onto_; }
  fs::path states(bool saved) const { return folder_.path() / (saved ? "saved" : "resumed"); }
  void write(bool saved, std::int64_t step, const Values& values) {
    for (int rank = 0; rank < mesh(saved).world(); ++rank) {
      write_rank_state(step_folder(states(saved), step),
                       rank_state(mesh(saved), rank, step, values));
    }
  }
  // The same run, but with element `index` of `part` wrong from `step` on.
  void spoil(bool saved, std::int64_t from_step, const std::string& part, std::int64_t index) {
    for (std::int64_t step = from_step; step <= kTrainUntil; ++step) {
      write(saved, step, [&](const std::string& p, std::int64_t s, std::int64_t i) {
        return right(p, s, i) + (p == part && i == index ? 0.5f : 0.0f);
      });
    }
  }
  // The resumed run's state at the save, its moment in 4 bits.
  RankState with_quantised_moment() {
    RankState state = rank_state(onto_, 0, 3, right);
    Piece& codes = state.pieces[1];
    codes.key.part = "moment1.codes";
    codes.dtype = Dtype::u8;
    codes.block = kElements;
    codes.bytes.assign(kElements, std::byte{3});
    std::vector<float> entries(16);
    std::iota(entries.begin(), entries.end(), 0.0f);
    state.pieces.push_back(piece("moment1.scale", {1}, Box({0}, {1}), {1}));
    state.pieces.push_back(piece("moment1.codebook", {16}, Box({0}, {16}), entries));
    return state;
  }
  fs::path artifacts() const { return folder_.path() / "artifacts"; }

  ResumeRun& resume() {
    if (phases_.resumes.empty()) phases_.resumes.emplace_back();
    return phases_.resumes.front();
  }

  CaseResult judged() {
    Case c;
    c.scenario = std::make_shared<const Scenario>(scenario_);
    c.adapter = "reference";
    c.from = from_;
    c.onto = onto_;
    phases_.save_request.settings = resume().request.settings = scenario_.settings;
    phases_.save_request.mesh = from_;
    resume().request.mesh = onto_;
    phases_.save_request.states = states(true);
    resume().request.states = states(false);
    if (phases_.save.ranks.empty()) phases_.save.ranks = {well(0), well(1)};
    if (with_resume_ && !resume().outcome) resume().outcome = PhaseOutcome{};
    if (resume().outcome && resume().outcome->ranks.empty()) resume().outcome->ranks = {well(0)};
    return judge(c, phases_, folder_.path(), artifacts());
  }

  void write_golden_of(const Values& values, std::int64_t last = kTrainUntil) {
    scenario_.oracles.push_back("golden");
    std::map<std::int64_t, LogicalState> states;
    for (std::int64_t step = kSaveAfter; step <= last; ++step) {
      states[step] = assemble({rank_state(Mesh::parse("dp1"), 0, step, values)}).assembled.state;
    }
    Golden golden = make_golden(folder_.path(), scenario_, states);
    golden.machine = "{}";
    golden.date = "2026-01-01";
    golden.reason = "a test";
    write_golden(golden);
  }

  TemporaryFolder folder_;
  Scenario scenario_;
  Mesh from_, onto_;
  Phases phases_;
  bool with_resume_ = true;
};

TEST_F(JudgementTest, EqualRunsPass) {
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::pass) << result.reason << result.symptom;
  EXPECT_EQ(result.oracles.at("after_load"), "pass");
  EXPECT_EQ(result.oracles.at("trajectory"), "pass");
  EXPECT_EQ(result.oracles.at("golden"), "not_applicable");
  EXPECT_EQ(result.compared_tensors, 4 * 3) << "after the load and three steps, three tensors each";
  EXPECT_FALSE(fs::exists(artifacts())) << "a pass leaves nothing behind";
}

TEST_F(JudgementTest, WrongAfterLoadFailsThere) {
  spoil(false, 3, "moment1.values", 5);
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::fail);
  EXPECT_EQ(result.failed_at, "after_load");
  EXPECT_THAT(result.symptom,
              HasSubstr("moment1.values of w: 1 of 8 elements differ; first is element 5"));
  EXPECT_EQ(result.oracles.at("after_load"), "fail");
  EXPECT_EQ(result.oracles.at("trajectory"), "not_reached");
  EXPECT_THAT(result.holders, ElementsAre("saved by rank 1 of dp2", "held by rank 0 of dp1"));
  ASSERT_TRUE(result.first_difference);
  EXPECT_EQ(result.first_difference->first_index, 5);
  EXPECT_TRUE(fs::exists(result.want_file));
  EXPECT_TRUE(fs::exists(result.got_file));
}

TEST_F(JudgementTest, WrongLaterFailsAtThatStep) {
  spoil(false, 5, "param", 0);
  const CaseResult result = judged();
  EXPECT_EQ(result.failed_at, "step 5");
  EXPECT_EQ(result.oracles.at("after_load"), "pass");
  EXPECT_EQ(result.oracles.at("trajectory"), "fail");
  EXPECT_THAT(result.holders, ElementsAre("continued by rank 0 of dp2", "held by rank 0 of dp1"));
}

class ResumesInARow : public JudgementTest {
 protected:
  // dp2 -> dp1 -> dp2: the first takes step 4 and saves, the second loads that and goes on.
  ResumesInARow() {
    write_second(4, right);
    for (const std::int64_t step : {5, 6}) write_second(step, right);
  }
  fs::path second() const { return folder_.path() / "second"; }
  void write_second(std::int64_t step, const Values& values) {
    for (int rank = 0; rank < from_.world(); ++rank) {
      write_rank_state(step_folder(second(), step), rank_state(from_, rank, step, values));
    }
  }
  void spoil_second(std::int64_t step) {
    write_second(step, [](const std::string& part, std::int64_t s, std::int64_t i) {
      return right(part, s, i) + (part == "param" && i == 5 ? 0.5f : 0.0f);
    });
  }
  CaseResult judged_both() {
    judged();  // fills the first
    ResumeRun next = resume();
    resume().request.settings.train_until = 4;
    next.request.mesh = from_;
    next.request.settings.save_after = 4;
    next.request.states = second();
    next.outcome->ranks = {well(0), well(1)};
    phases_.resumes.resize(1);
    phases_.resumes.push_back(next);
    if (!reached_) phases_.resumes.back().outcome.reset();
    Case c;
    c.scenario = std::make_shared<const Scenario>(scenario_);
    c.adapter = "reference";
    c.from = from_;
    c.onto = onto_;
    return judge(c, phases_, folder_.path(), artifacts());
  }
  bool reached_ = true;
};

TEST_F(ResumesInARow, AreAllCompared) {
  const CaseResult result = judged_both();
  EXPECT_EQ(result.verdict, Verdict::pass) << result.reason << result.symptom;
  EXPECT_EQ(result.compared_tensors, (2 + 3) * 3) << "steps 3 and 4, then 4, 5 and 6";
}

TEST_F(ResumesInARow, TheSecondIsNamedWhereItIsWrong) {
  spoil_second(4);
  const CaseResult result = judged_both();
  EXPECT_EQ(result.failed_at, "after_load");
  EXPECT_THAT(result.symptom, HasSubstr("second resume in a row: param of w: 1 of 8"));
  EXPECT_THAT(result.holders, ElementsAre("saved by rank 1 of dp2", "held by rank 1 of dp2"));
}

TEST_F(ResumesInARow, TheSecondsStepsAreComparedAndItsGoldenToo) {
  spoil_second(6);
  EXPECT_EQ(judged_both().failed_at, "step 6");
  scenario_.oracles = {"after_load"};
  write_golden_of(right);
  const CaseResult result = judged_both();
  EXPECT_EQ(result.failed_at, "golden");
  EXPECT_THAT(result.symptom, HasSubstr("at step 6 of the resumed run"));
}

TEST_F(ResumesInARow, ASecondThatNeverBeganIsNoPass) {
  reached_ = false;
  EXPECT_EQ(judged_both().verdict, Verdict::error);
}

TEST_F(JudgementTest, UnselectedPartIsNotCompared) {
  scenario_.parts = {"param", "step"};
  spoil(false, 3, "moment1.values", 5);
  EXPECT_EQ(judged().verdict, Verdict::pass);
}

TEST_F(JudgementTest, UnaskedOracleIsNotApplicable) {
  scenario_.oracles = {"after_load"};
  spoil(false, 4, "param", 0);
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::pass);
  EXPECT_EQ(result.oracles.at("trajectory"), "not_applicable");
}

TEST_F(JudgementTest, FailedSaveRunIsToldFirst) {
  spoil(false, 3, "param", 0);
  phases_.save.ranks = {well(0), raised(1, "save_run step 2", "no such op")};
  with_resume_ = false;
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::fail);
  EXPECT_EQ(result.failed_at, "save_run step 2");
  EXPECT_EQ(result.symptom, "no such op");
  EXPECT_EQ(result.oracles.at("after_load"), "not_reached");
}

TEST_F(JudgementTest, FailureBeforeTheFirstPhaseIsNamed) {
  phases_.save.ranks = {raised(0, "", "bad build"), well(1)};
  with_resume_ = false;
  EXPECT_EQ(judged().failed_at, "save_run step 0");
  phases_.save.ranks = {well(0), well(1)};
  resume().outcome = PhaseOutcome{};
  resume().outcome->ranks = {raised(0, "", "bad build")};
  EXPECT_EQ(judged().failed_at, "load");
}

TEST_F(JudgementTest, FailedLoadComparesNothing) {
  resume().outcome = PhaseOutcome{};
  resume().outcome->ranks = {raised(0, "load", "Missing key: w")};
  const CaseResult result = judged();
  EXPECT_EQ(result.failed_at, "load");
  EXPECT_EQ(result.symptom, "Missing key: w");
  EXPECT_EQ(result.compared_tensors, 0);
}

TEST_F(JudgementTest, CrashInAStepComesAfterTheComparisonsBeforeIt) {
  resume().outcome = PhaseOutcome{};
  resume().outcome->ranks = {raised(0, "step 5", "boom")};
  CaseResult result = judged();
  EXPECT_EQ(result.failed_at, "step 5");
  EXPECT_EQ(result.symptom, "boom");
  EXPECT_EQ(result.oracles.at("after_load"), "pass");
  EXPECT_EQ(result.oracles.at("trajectory"), "fail");
  spoil(false, 4, "param", 0);
  result = judged();
  EXPECT_EQ(result.failed_at, "step 4") << "a difference before the crash explains more";
}

TEST_F(JudgementTest, KilledRankIsASymptom) {
  resume().outcome = PhaseOutcome{};
  RankEnd killed;
  killed.how = RankEnd::How::killed;
  killed.signal = 9;
  killed.progress = "step 4";
  resume().outcome->ranks = {killed};
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::fail);
  EXPECT_EQ(result.failed_at, "step 4");
  EXPECT_EQ(result.symptom, "rank 0 died: signal 9 (SIGKILL)");
}

TEST_F(JudgementTest, ADeathInTheRightPlaceIsNoRefusal) {
  scenario_.refusal = "load: ";
  scenario_.oracles.clear();
  resume().outcome = PhaseOutcome{};
  resume().outcome->ranks = {raised(0, "load", "cannot slice")};
  EXPECT_EQ(judged().verdict, Verdict::pass);
  RankEnd killed;
  killed.how = RankEnd::How::killed;
  killed.signal = 9;
  killed.progress = "load";
  resume().outcome->ranks = {killed};
  EXPECT_EQ(judged().verdict, Verdict::fail);
}

TEST_F(JudgementTest, LauncherTroubleIsError) {
  phases_.save.launch_problem = "mpirun exited with status 213";
  with_resume_ = false;
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::error);
  EXPECT_THAT(result.reason, HasSubstr("save_run: mpirun exited"));
}

// Rank 1 only waited for it; the run that was on the device is not judged.
TEST_F(JudgementTest, ALostDeviceIsErrorWithTheRankAndWhatCudaSaid) {
  RankEnd lost = raised(1, "step 4", "rank 1 on CUDA device 1: CUDA, while copying: cudaErrorX");
  lost.record->exception->type = kDeviceFailure;
  resume().outcome = PhaseOutcome{};
  resume().outcome->ranks = {raised(0, "step 4", "another rank failed"), lost};
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::error);
  EXPECT_EQ(result.reason, "step 4: rank 1 on CUDA device 1: CUDA, while copying: cudaErrorX");
}

TEST_F(JudgementTest, TheTransportIsWhatTheRanksTell) {
  EXPECT_EQ(judged().transport, "mpi");
  for (RankEnd& end : resume().outcome->ranks) end.record->transport = "nccl";
  EXPECT_EQ(judged().transport, "nccl");
}

TEST_F(JudgementTest, ACaseThatAsksForNcclIsNotPassedOverAnythingElse) {
  scenario_.requirements = {"nccl"};
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::error);
  EXPECT_THAT(result.reason, HasSubstr("needs nccl, but mpi carried its 2 ranks"));
}

TEST_F(JudgementTest, HarnessTimeoutIsTimeout) {
  resume().outcome = PhaseOutcome{};
  resume().outcome->harness_timeout = true;
  EXPECT_EQ(judged().verdict, Verdict::timeout);
}

TEST_F(JudgementTest, UnsupportedIsSkip) {
  phases_.save.ranks = {raised(0, "", "needs fp32"), well(1)};
  phases_.save.ranks[0].record->exception->type = "Unsupported";
  with_resume_ = false;
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::skip);
  EXPECT_EQ(result.reason, "needs fp32");
}

TEST_F(JudgementTest, AnExceptionOfThatNameIsNoSkip) {
  resume().outcome = PhaseOutcome{};
  resume().outcome->ranks = {raised(0, "load", "call to print()")};
  resume().outcome->ranks[0].record->exception->type = "Unsupported";
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::fail) << "torch._dynamo.exc.Unsupported is no wish to skip";
  EXPECT_EQ(result.failed_at, "load");
}

TEST_F(JudgementTest, RanksThatDisagreeAboutAValueFail) {
  from_ = onto_ = Mesh::parse("dp2");
  resume().outcome = PhaseOutcome{};
  resume().outcome->ranks = {well(0), well(1)};
  for (const std::int64_t step : {3, 4, 5, 6}) write(false, step, right);
  RankState other = rank_state(onto_, 1, 3, right);
  other.values["lr/0"] = 7.0;
  write_rank_state(step_folder(states(false), 3), other);
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::fail);
  EXPECT_EQ(result.failed_at, "after_load");
  EXPECT_THAT(result.symptom, HasSubstr("lr/0"));
}

TEST_F(JudgementTest, StateThatWasNotWrittenIsError) {
  fs::remove_all(step_folder(states(false), 4));
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::error);
  EXPECT_THAT(result.reason, HasSubstr("step4"));
  EXPECT_THAT(result.oracles, testing::Contains(testing::Pair("trajectory", "not_reached")));
}

TEST_F(JudgementTest, ReplicasThatDisagreeFail) {
  onto_ = Mesh::parse("rep2");
  resume().outcome = PhaseOutcome{};
  resume().outcome->ranks = {well(0), well(1)};
  for (const std::int64_t step : {3, 4, 5, 6}) write(false, step, right);
  RankState other = rank_state(onto_, 1, 4, right);
  other.pieces[0].bytes[4] = std::byte{1};
  write_rank_state(step_folder(states(false), 4), other);
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::fail);
  EXPECT_EQ(result.failed_at, "step 4");
  EXPECT_THAT(result.symptom, HasSubstr("param of w"));
  EXPECT_THAT(result.symptom, HasSubstr("disagree"));
}

TEST_F(JudgementTest, HoleAfterLoadFails) {
  RankState torn = rank_state(onto_, 0, 3, right);
  torn.pieces[0] = piece("param", {kElements}, Box({0}, {4}), {1, 2, 3, 4});
  write_rank_state(step_folder(states(false), 3), torn);
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::fail);
  EXPECT_EQ(result.failed_at, "after_load");
  EXPECT_THAT(result.symptom, HasSubstr("param of w"));
}

TEST_F(JudgementTest, SavingRunThatContradictsItselfFailsThere) {
  RankState torn = rank_state(from_, 1, 3, right);
  torn.pieces.erase(torn.pieces.begin());
  write_rank_state(step_folder(states(true), 3), torn);
  EXPECT_EQ(judged().failed_at, "save_run step 3");
}

TEST_F(JudgementTest, ChangedStorageWidthIsOneSymptom) {
  write_rank_state(step_folder(states(false), 3), with_quantised_moment());
  const CaseResult result = judged();
  EXPECT_THAT(result.symptom, HasSubstr("storage width of moment1 of w changed: want values"));
  EXPECT_EQ(result.first_difference->kind, Difference::Kind::storage_width);
}

TEST_F(JudgementTest, APartOfAMomentThatDoesNotFitTheOthersIsTheSymptom) {
  RankState torn = with_quantised_moment();
  torn.pieces.back().bytes.resize(15 * sizeof(float));  // of its codebook
  torn.pieces.back().global_shape = {15};
  torn.pieces.back().box = Box({0}, {15});
  write_rank_state(step_folder(states(false), 3), torn);
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::fail);
  EXPECT_EQ(result.failed_at, "after_load");
  EXPECT_THAT(result.symptom, HasSubstr("moment1.codebook of w has 15 entries"));
}

TEST_F(JudgementTest, AMisfitThatBothRunsShareIsNoPass) {
  from_ = onto_;
  phases_.save.ranks = {well(0)};
  for (const std::int64_t step : {0, 2, 3, 4, 5, 6}) write(true, step, right);
  RankState torn = with_quantised_moment();
  torn.pieces.pop_back();
  for (const bool saved : {true, false}) write_rank_state(step_folder(states(saved), 3), torn);
  const CaseResult result = judged();
  EXPECT_EQ(result.failed_at, "save_run step 3");
  EXPECT_THAT(result.symptom, HasSubstr("moment1.codebook of w is missing"));
  scenario_.parts = {"param", "step"};
  EXPECT_EQ(judged().failed_at, "") << "moments are not looked at";
}

// What is compared is the same; what it means is not.
TEST_F(JudgementTest, AMisfitBesideWhatIsComparedIsNoPass) {
  from_ = onto_;
  phases_.save.ranks = {well(0)};
  for (const std::int64_t step : {0, 2, 3, 4, 5, 6}) write(true, step, right);
  RankState torn = with_quantised_moment();
  write_rank_state(step_folder(states(true), 3), torn);
  torn.pieces.pop_back();
  write_rank_state(step_folder(states(false), 3), torn);
  scenario_.parts = {"param", "moment1.codes"};
  const CaseResult result = judged();
  EXPECT_EQ(result.failed_at, "after_load");
  EXPECT_THAT(result.symptom, HasSubstr("moment1.codebook of w is missing"));
  EXPECT_FALSE(result.first_difference);
}

TEST_F(JudgementTest, GoldenThatAgreesPasses) {
  write_golden_of(right);
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::pass) << result.symptom << result.reason;
  EXPECT_EQ(result.oracles.at("golden"), "pass");
  EXPECT_FALSE(result.golden.empty());
}

TEST_F(JudgementTest, GoldenThatDiffersNamesTensorAndStep) {
  write_golden_of([](const std::string& part, std::int64_t step, std::int64_t index) {
    return right(part, step, index) + (part == "param" && step == 5 ? 1.0f : 0.0f);
  });
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::fail);
  EXPECT_EQ(result.failed_at, "golden");
  EXPECT_THAT(result.symptom, HasSubstr("param of w differs from the golden at step 5"));
  EXPECT_EQ(result.oracles.at("trajectory"), "pass");
  EXPECT_EQ(result.oracles.at("golden"), "fail");
}

TEST_F(JudgementTest, GoldenThatDoesNotKnowATensorFails) {
  write_golden_of(right);
  for (const bool saved : {true, false}) {
    for (std::int64_t step = kSaveAfter; step <= kTrainUntil; ++step) {
      for (int rank = 0; rank < mesh(saved).world(); ++rank) {
        RankState more = rank_state(mesh(saved), rank, step, right);
        more.pieces.push_back(more.pieces[1]);
        more.pieces.back().key.part = "moment1.more";
        write_rank_state(step_folder(states(saved), step), more);
      }
    }
  }
  const CaseResult result = judged();
  EXPECT_EQ(result.failed_at, "golden");
  EXPECT_THAT(result.symptom,
              HasSubstr("moment1.more of w at step 3 of the save run is not in the golden"));
}

TEST_F(JudgementTest, GoldenWithoutAStepIsError) {
  write_golden_of(right, kTrainUntil - 1);
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::error);
  EXPECT_THAT(result.reason, HasSubstr("holds no step 6"));
}

TEST_F(JudgementTest, GoldenIsNotReachedAfterAnEarlierFailure) {
  write_golden_of(right);
  spoil(false, 4, "param", 0);
  EXPECT_EQ(judged().oracles.at("golden"), "not_reached");
}

TEST_F(JudgementTest, MissingGoldenIsErrorWithItsCure) {
  scenario_.oracles.push_back("golden");
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::error);
  EXPECT_THAT(result.reason, HasSubstr("resumecheck golden update"));
}

TEST_F(JudgementTest, PassThatCouldNotFailIsVacuous) {
  scenario_.parts.push_back("moment2");
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::vacuous);
  EXPECT_THAT(result.reason, HasSubstr("moment2"));
}

TEST_F(JudgementTest, ParameterThatNoStateHoldsIsVacuous) {
  scenario_.settings.parameters.emplace_back("forgotten", Shape{8});
  const CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::vacuous);
  EXPECT_THAT(result.reason, HasSubstr("forgotten"));
}

TEST_F(JudgementTest, RunThatNeverMovedIsVacuous) {
  const Values still = [](const std::string& part, std::int64_t, std::int64_t index) {
    return right(part, 1, index);
  };
  for (const std::int64_t step : {0, 2, 3, 4, 5, 6}) write(true, step, still);
  for (const std::int64_t step : {3, 4, 5, 6}) write(false, step, still);
  EXPECT_EQ(judged().verdict, Verdict::vacuous);
}

TEST_F(JudgementTest, KnownBrokenNeedsItsSymptom) {
  scenario_.known_broken = {{"onto == 'dp1'", "step 5: boom", "owner/repo#1", "x.toml:9"}};
  resume().outcome = PhaseOutcome{};
  resume().outcome->ranks = {raised(0, "step 5", "boom and more")};
  CaseResult result = judged();
  EXPECT_EQ(result.verdict, Verdict::xfail);
  EXPECT_EQ(result.known_broken, "owner/repo#1");

  resume().outcome->ranks = {raised(0, "step 4", "boom and more")};
  result = judged();
  EXPECT_EQ(result.verdict, Verdict::fail) << "another symptom is another defect";
  EXPECT_THAT(result.notes, ElementsAre(HasSubstr("another symptom")));

  resume().outcome->ranks = {well(0)};
  result = judged();
  EXPECT_EQ(result.verdict, Verdict::xpass);
  EXPECT_THAT(result.reason, HasSubstr("x.toml:9"));
}

TEST_F(JudgementTest, AKnownStepOfTheResumeIsNoStepOfTheSavingRun) {
  scenario_.known_broken = {{"onto == 'dp1'", "step 4: boom", "owner/repo#1", "x.toml:9"}};
  phases_.save.ranks = {well(0), raised(1, "save_run step 4", "boom")};
  with_resume_ = false;
  EXPECT_EQ(judged().verdict, Verdict::fail) << "'save_run step 4: boom' holds 'step 4: boom'";
  scenario_.known_broken[0].symptom = "oom";
  EXPECT_EQ(judged().verdict, Verdict::xfail) << "words of the symptom alone are enough";
}

TEST_F(JudgementTest, KnownBrokenElsewhereChangesNothing) {
  scenario_.known_broken = {{"onto == 'dp4'", "", "owner/repo#1", "x.toml:9"}};
  EXPECT_EQ(judged().verdict, Verdict::pass);
}

TEST_F(JudgementTest, NotesOfTheRanksAreKeptOnce) {
  phases_.save.ranks = {well(0), well(1)};
  phases_.save.ranks[0].record->notes = {"wrapper bf16, spec fp32"};
  phases_.save.ranks[1].record->notes = {"wrapper bf16, spec fp32"};
  EXPECT_THAT(judged().notes, ElementsAre("wrapper bf16, spec fp32"));
}

TEST_F(JudgementTest, CommandToRunItAgainIsQuoted) {
  EXPECT_EQ(judged().again, "resumecheck run 'subject/state_survives[reference,dp2->dp1]'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
}

}  // namespace
}  // namespace resumecheck
