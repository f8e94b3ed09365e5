// A phase on thread ranks: what it leaves for the harness to judge, and that a rank's failure is
// told from the silence of those that only waited for it.
#include <gtest/gtest.h>

#include "harness/adapters/reference/native_case.h"
#include "harness/adapters/reference/reference.h"
#include "harness/adapters/reference/reference_settings.h"
#include "harness/ranks/thread_communicator.h"
#include "harness/state/temporary_folder.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace resumecheck {
namespace {

class PhaseTest : public testing::Test {
 protected:
  PhaseRequest request(const std::string& phase, const std::string& mesh) {
    PhaseRequest request;
    request.phase = phase;
    request.case_name = "a case";
    request.adapter = "reference";
    request.mesh = request.save_mesh = Mesh::parse(mesh);
    request.settings = settings_with_every_shape();
    request.init_seed = request.settings.seed + (phase == "save_run" ? 0 : 1);
    request.checkpoint = scratch_.path() / "checkpoint";
    request.states = scratch_.path() / phase / "states";
    request.records = scratch_.path() / phase / "records";
    prepare_phase(request);
    return request;
  }
  TemporaryFolder scratch_;
};

TEST_F(PhaseTest, LeavesTheStatesThatAreCompared) {
  const PhaseRequest save = request("save_run", "dp2");
  ASSERT_TRUE(run_phase_on_threads(save).ok());
  for (const int step : {0, 2, 3, 4, 5}) {
    EXPECT_TRUE(read_states(step_folder(save.states, step), 2).problems.empty()) << step;
  }
  EXPECT_FALSE(std::filesystem::exists(step_folder(save.states, 1))) << "not compared";

  const PhaseRequest resume = request("resume_run", "dp3");
  const PhaseOutcome outcome = run_phase_on_threads(resume);
  ASSERT_TRUE(outcome.ok()) << outcome.symptom();
  for (const int step : {3, 4, 5}) {
    EXPECT_TRUE(read_states(step_folder(resume.states, step), 3).problems.empty()) << step;
  }
  EXPECT_EQ(outcome.ranks[2].record->phase, "step 5");
  EXPECT_EQ(outcome.ranks[2].record->step, 5);
}

TEST_F(PhaseTest, AFailingLoadIsThatRanksAndNotTheOthers) {
  const PhaseOutcome outcome = run_phase_on_threads(request("resume_run", "dp2"));
  EXPECT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.failed_at(), "load");
  EXPECT_NE(outcome.symptom().find("no such checkpoint folder"), std::string::npos)
      << outcome.symptom();
}

TEST_F(PhaseTest, ARaisedExceptionIsTheSymptomOfItsRankAndPlace) {
  PhaseRequest save = request("save_run", "dp3");
  save.faults = {{"raise_exception", 1, "save_run step 2"}};
  const PhaseOutcome outcome = run_phase_on_threads(save);
  EXPECT_EQ(outcome.failed_at(), "save_run step 2");
  EXPECT_EQ(outcome.symptom(), "raised on purpose by rank 1 in save_run step 2");
  EXPECT_EQ(outcome.ranks[0].record->exception->type, "PeerFailed");
  EXPECT_EQ(outcome.ranks[1].record->step, 1);
}

// The last thing a rank does: its failure must still reach ranks that are through already.
TEST_F(PhaseTest, AFailureInTheLastStepReachesEveryRank) {
  PhaseRequest save = request("save_run", "dp2");
  save.settings.parameters = {{"small", {7}}};
  save.faults = {{"raise_exception", 0, "save_run step 5"}};
  const PhaseOutcome outcome = run_phase_on_threads(save);
  EXPECT_EQ(outcome.failed_at(), "save_run step 5");
  EXPECT_FALSE(outcome.ranks[1].record->ok);
}

TEST_F(PhaseTest, ACheckpointOfAnotherStepIsTheSubjectsFailure) {
  ASSERT_TRUE(run_phase_on_threads(request("save_run", "dp1")).ok());
  PhaseRequest resume = request("resume_run", "dp1");
  resume.settings.save_after = 2;
  const PhaseOutcome outcome = run_phase_on_threads(resume);
  EXPECT_EQ(outcome.failed_at(), "load");
  EXPECT_NE(outcome.symptom().find("after step 3"), std::string::npos) << outcome.symptom();
}

TEST_F(PhaseTest, ADeviceThatThisProgramHasNotIsSaid) {
  PhaseRequest save = request("save_run", "dp1");
  save.device = "cuda";
  const PhaseOutcome outcome = run_phase_on_threads(save);
  EXPECT_NE(outcome.symptom().find("device cuda"), std::string::npos) << outcome.symptom();
}

TEST_F(PhaseTest, ATooSmallJobIsSaid) {
  const PhaseRequest save = request("save_run", "dp2");
  run_ranks(1, [&](Communicator& ranks) { EXPECT_FALSE(run_reference_phase(save, ranks)); });
  const PhaseOutcome outcome = outcome_of_records(save, FileTime::clock::now(), "same", "threads");
  EXPECT_NE(outcome.symptom().find("needs 2 ranks"), std::string::npos) << outcome.symptom();
}

#if defined(__x86_64__)
// What a library loaded into the process can do to everyone.
TEST_F(PhaseTest, FlushedDenormalsAreRefused) {
  const PhaseRequest save = request("save_run", "dp1");
  run_ranks(1, [&](Communicator& ranks) {
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8000U);
    EXPECT_FALSE(run_reference_phase(save, ranks));
    _mm_setcsr(before);
  });
  const PhaseOutcome outcome = outcome_of_records(save, FileTime::clock::now(), "same", "threads");
  EXPECT_FALSE(outcome.symptom().empty());
  EXPECT_TRUE(std::filesystem::is_empty(save.states)) << "it computed all the same";
}
#endif

}  // namespace
}  // namespace resumecheck
