// What a launch of all ranks tells of each of them, with shell scripts as ranks.
#include "harness/phases/fresh_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/state/file.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

using How = RankEnd::How;
using testing::HasSubstr;

constexpr const char* kLauncher =
    RESUMECHECK_SOURCE_DIR "/harness/phases/testdata/launch.sh -n {n}";
// Goes on when all of its ranks are gone.
constexpr const char* kLingering =
    "sh -c '" RESUMECHECK_SOURCE_DIR
    "/harness/phases/testdata/launch.sh -n {n} \"$@\"; exec sleep 1000' sh";

// Each rank runs the script with `records` and `rank` set.
class FreshStartTest : public testing::Test {
 protected:
  PhaseOutcome run(const std::string& script, const std::string& mesh = "dp2") {
    PhaseRequest request;
    request.phase = "resume_run";
    request.mesh = request.save_mesh = Mesh::parse(mesh);
    request.states = folder_ / "states";
    request.records = folder_ / "records";
    request.limit_seconds = 0.5;
    const std::string prelude = "records=" + request.records.string() +
                                "; rank=$SLURM_PROCID; "
                                // Whole or not at all, as adapters write it.
                                "record() { cat >$records/new$rank; "
                                "mv $records/new$rank $records/exit_rank$rank.json; }; "
                                "begin() { echo \"$1\" >$records/progress_rank$rank; }; "
                                "well() { echo '{\"schema\":1,\"phase\":\"step 4\",\"ok\":true,"
                                "\"step\":4,\"exception\":null,\"seconds\":1,\"notes\":[]}' "
                                "| record; }; "
                                "badly() { echo '{\"schema\":1,\"phase\":\"load\",\"ok\":false,"
                                "\"step\":4,\"exception\":{\"type\":\"E\",\"message\":\"why\","
                                "\"traceback\":\"\"},\"seconds\":1,\"notes\":[]}' "
                                "| record; }; ";
    FreshStart start;
    start.launcher = Launcher(launcher_);
    start.program = {"sh", "-c", prelude + script};
    start.start_limit = 0.5;
    start.grace = 0.2;
    start.linger_limit = linger_limit_;
    return run_fresh(start, request);
  }

  TemporaryFolder folder_;
  std::string launcher_ = kLauncher;
  double linger_limit_ = 10;
};

TEST_F(FreshStartTest, RanksThatSaySoEndedWell) {
  const PhaseOutcome outcome = run("begin load; well");
  EXPECT_TRUE(outcome.ok()) << outcome.symptom() << outcome.launch_problem;
  EXPECT_EQ(outcome.ranks.size(), 2u);
}

TEST_F(FreshStartTest, RankWithoutARecordIsNotWell) {
  const PhaseOutcome outcome = run("begin load; [ $rank = 1 ] || well");
  EXPECT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.symptom(), "rank 1 exited with status 0 before it finished");
  EXPECT_EQ(outcome.failed_at(), "load");
}

// As a framework that crashes while it is torn down: a forked rank that does so has failed too.
TEST_F(FreshStartTest, RankThatDiesAfterItsRecordIsNotWell) {
  const PhaseOutcome outcome = run("begin 'step 4'; well; [ $rank = 0 ] || exit 3");
  EXPECT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.symptom(),
            "rank 1 exited with status 3 after it had reported that all is well");
  EXPECT_EQ(outcome.failed_at(), "step 4");
}

TEST_F(FreshStartTest, WaitingRanksAreEndedOnceOneHasFailed) {
  const PhaseOutcome outcome = run("begin load; if [ $rank = 0 ]; then sleep 1000; else badly; fi");
  EXPECT_EQ(outcome.symptom(), "why");
  EXPECT_EQ(outcome.ranks[0].how, How::cancelled);
}

TEST_F(FreshStartTest, HangIsTheSubjectsOnceARankHasBegun) {
  const PhaseOutcome outcome = run("begin 'step 4'; if [ $rank = 1 ]; then sleep 1000; fi; well");
  EXPECT_FALSE(outcome.harness_timeout);
  EXPECT_EQ(outcome.symptom(), "hang in step 4");
  EXPECT_EQ(outcome.ranks[1].how, How::hung);
}

TEST_F(FreshStartTest, RanksThatNeverBeginAreTheHarnesssTimeout) {
  EXPECT_TRUE(run("sleep 1000").harness_timeout);
}

TEST_F(FreshStartTest, LauncherThatOutlivesItsRanksIsEnded) {
  launcher_ = kLingering;
  linger_limit_ = 0.1;
  EXPECT_THAT(run("sleep 0.1").launch_problem, HasSubstr("every rank was gone before it began"));
}

TEST_F(FreshStartTest, RankThatDiesUnderALingeringLauncherIsTheSubjects) {
  launcher_ = kLingering;
  linger_limit_ = 0.1;
  const PhaseOutcome outcome = run("begin load; sleep 0.1; kill -9 $$");
  EXPECT_EQ(outcome.launch_problem, "");
  EXPECT_FALSE(outcome.ok());
  EXPECT_LT(outcome.seconds, 30);
}

TEST_F(FreshStartTest, ProgramThatCannotStartIsALaunchProblem) {
  const PhaseOutcome outcome = run("echo no library >&2; exit 127");
  EXPECT_THAT(outcome.launch_problem, HasSubstr("before any rank began: no library"));
}

TEST_F(FreshStartTest, FailingRanksKeepTheirLastWords) {
  EXPECT_THAT(run("begin load; echo last words; badly").ranks[0].output_tail,
              HasSubstr("last words"));
}

TEST(LauncherOutputTest, OfOpenMpi) {
  const auto killed = read_launcher_output(
      "----\nmpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 "
      "(Killed).\n----\n");
  ASSERT_EQ(killed.size(), 1u);
  EXPECT_EQ(killed[0].rank, 1);
  EXPECT_EQ(killed[0].signal, 9);
  const auto exited =
      read_launcher_output("  Process name: [[28817,1],2]\n  Exit code:    3\n-----\n");
  ASSERT_EQ(exited.size(), 1u);
  EXPECT_EQ(exited[0].rank, 2);
  EXPECT_EQ(exited[0].exit_status, 3);
  const auto left = read_launcher_output(
      "mpirun has exited due to process rank 1 with PID 0 on\nnode vm exiting improperly. There");
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].rank, 1);
}

TEST(LauncherOutputTest, OfSlurm) {
  const auto reports = read_launcher_output(
      "srun: error: n1: task 3: Killed\nsrun: error: n1: task 0: Exited with exit code 2\n"
      "srun: error: n1: task 1: Segmentation fault\n");
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_EQ(reports[0].exit_status, 2);
  EXPECT_EQ(reports[1].rank, 3);
  EXPECT_EQ(reports[1].signal, 9);
  EXPECT_EQ(reports[2].signal, 11);
}

TEST(LauncherOutputTest, OfNobodySaysNothing) {
  EXPECT_TRUE(read_launcher_output("task 1 of 3: process rank 1\n").empty());
}

}  // namespace
}  // namespace resumecheck
