// The program as a person or a CI job meets it: real jobs, their exit codes, what they print and
// what they leave, above all when a rank dies or hangs.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "harness/ranks/launched_job.h"
#include "harness/report/report.h"
#include "harness/state/file.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;

const std::string kScenario = "adamw8bit/blocks_cut_by_a_shard_boundary_survive";
const std::string kFirst = kScenario + "[reference,dp3->dp1]";
const std::string kSecond = kScenario + "[reference,dp3->dp3]";

class MpiProgram : public testing::Test {
 protected:
  LaunchedJob run(int ranks, const std::string& arguments) {
    return launch_job(ranks, RESUMECHECK_BINARY_DIR "/resumecheck-mpi --gtest_color=no --out '" +
                                 out_.string() + "' " + arguments);
  }

  std::vector<CaseResult> results() const {
    std::istringstream lines(read_file(out_ / "results.jsonl"));
    std::string line;
    std::getline(lines, line);  // the machine
    std::vector<CaseResult> all;
    while (std::getline(lines, line)) all.push_back(from_json_line(line));
    return all;
  }

  TemporaryFolder scratch_;
  fs::path out_ = scratch_.path() / "out";
};

std::string quoted(const std::string& text) { return "'" + text + "' "; }

TEST_F(MpiProgram, APassIsZeroAndWrittenDownOnceWithHowItRan) {
  const LaunchedJob job = run(3, quoted(kFirst));
  ASSERT_EQ(job.exit_code, 0) << job.output;
  ASSERT_EQ(results().size(), 1U);
  const CaseResult result = results()[0];
  EXPECT_EQ(result.name, kFirst);
  EXPECT_EQ(result.verdict, Verdict::pass);
  EXPECT_EQ(result.process, "same");
  EXPECT_EQ(result.transport, "mpi");
  EXPECT_EQ(result.oracles.at("golden"), "pass");
  EXPECT_EQ(count(job.output, "1 case = 1 PASS"), 1) << job.output;
  EXPECT_TRUE(fs::exists(out_ / "junit.xml"));
  EXPECT_FALSE(fs::exists(out_ / "work")) << "states of a case that passed were kept";
}

// The second case finds the save run done, and its own ranks sit elsewhere than in the first.
TEST_F(MpiProgram, CasesThatSaveAlikeShareASaveRunAndItGoesWithTheLast) {
  const LaunchedJob job = run(3, quoted(kFirst) + quoted(kSecond));
  ASSERT_EQ(job.exit_code, 0) << job.output;
  ASSERT_EQ(results().size(), 2U);
  EXPECT_EQ(results()[1].oracles.at("golden"), "pass");
  EXPECT_FALSE(fs::exists(out_ / "work"));
}

TEST_F(MpiProgram, ResumesInARowRunInOneJob) {
  const LaunchedJob job =
      run(3, quoted("adamw8bit/moments_survive_three_resumes_in_a_row[reference,dp2->dp3]"));
  ASSERT_EQ(job.exit_code, 0) << job.output;
  EXPECT_EQ(results().at(0).verdict, Verdict::pass);
  EXPECT_FALSE(fs::exists(out_ / "work"));
}

TEST_F(MpiProgram, ADefectIsOneWithTheFailureBlock) {
  const LaunchedJob job = run(3, quoted(kSecond) + "--defect scale_through_bf16");
  EXPECT_EQ(job.exit_code, 1) << job.output;
  EXPECT_EQ(count(job.output, "fits: rounded through bf16"), 1) << job.output;
  EXPECT_EQ(results().at(0).verdict, Verdict::fail);
}

TEST_F(MpiProgram, TooFewRanksIsASkipThatSaysHowMany) {
  const LaunchedJob job = run(2, quoted(kFirst));
  EXPECT_EQ(job.exit_code, 77) << job.output;
  EXPECT_EQ(results().at(0).reason, "needs 3 ranks, this job has 2");
}

TEST_F(MpiProgram, NoSuchCaseIsAUsageErrorSaidOnce) {
  const LaunchedJob job = run(3, "'adamw8bit/no_such_property'");
  EXPECT_EQ(job.exit_code, 2) << job.output;
  EXPECT_EQ(count(job.output, "no case matches"), 1) << job.output;
}

TEST_F(MpiProgram, AFilterThatLeavesNothingIsNotGreen) {
  EXPECT_EQ(run(1, "--gtest_filter=Nothing.*").exit_code, 2);
}

TEST_F(MpiProgram, AnUnknownDefectIsAUsageErrorThatListsTheKnown) {
  const LaunchedJob job = run(1, quoted(kFirst) + "--defect no_such_mistake");
  EXPECT_EQ(job.exit_code, 2) << job.output;
  EXPECT_EQ(count(job.output, "zero_moments"), 1) << job.output;
}

TEST_F(MpiProgram, CasesAreListedUnderTheirGoogleTestNames) {
  const LaunchedJob job = run(2, quoted(kFirst) + "--gtest_list_tests");
  EXPECT_EQ(job.exit_code, 0);
  EXPECT_EQ(count(job.output, "blocks_cut_by_a_shard_boundary_survive[reference,dp3_>dp1]"), 1)
      << job.output;
}

// Everything after the hang is ERROR, and the command that would run it is printed.
TEST_F(MpiProgram, AHungRankEndsTheJobWithStacksAndWhatWasNotRun) {
  const LaunchedJob job =
      run(3, quoted(kFirst) + quoted(kSecond) + "--time-limit 3 --defect hang_rank:0:'step 5'");
  EXPECT_EQ(job.exit_code, 1) << job.output;
  ASSERT_EQ(results().size(), 2U) << job.output;
  EXPECT_EQ(results()[0].verdict, Verdict::fail);
  EXPECT_EQ(results()[0].failed_at, "step 5");
  EXPECT_EQ(results()[0].symptom, "hang in step 5");
  EXPECT_EQ(results()[1].verdict, Verdict::error);
  EXPECT_EQ(results()[1].reason.rfind("not run", 0), 0U) << results()[1].reason;
  EXPECT_EQ(count(job.output, "--after '" + kFirst + "'"), 1) << job.output;
  EXPECT_TRUE(fs::exists(out_ / "junit.xml"));
  bool stacks = false;
  for (const auto& entry : fs::recursive_directory_iterator(out_)) {
    stacks |= entry.path().filename() == "stacks_rank0.txt" &&
              read_file(entry.path()).find("suffer_faults") != std::string::npos;
  }
  EXPECT_TRUE(stacks) << "no stack of the hung rank names where it hangs";
}

TEST_F(MpiProgram, ADeadRankIsNamedAndTheResultsBeforeItAreKept) {
  const LaunchedJob job =
      run(3, quoted(kFirst) + quoted(kSecond) + "--defect kill_rank:2:'save_run step 5'");
  EXPECT_NE(job.exit_code, 0) << job.output;
  ASSERT_EQ(results().size(), 2U) << job.output;
  EXPECT_EQ(results()[0].verdict, Verdict::fail);
  EXPECT_EQ(results()[0].failed_at, "save_run step 5");
  EXPECT_EQ(results()[0].symptom.rfind("rank 2 ", 0), 0U) << results()[0].symptom;
  EXPECT_EQ(results()[1].verdict, Verdict::error);
}

TEST_F(MpiProgram, ARankThatThrowsFailsItsCaseAndTheNextOneRuns) {
  const LaunchedJob job =
      run(3, quoted(kFirst) + quoted(kSecond) + "--defect raise_exception:0:'step 4'");
  EXPECT_EQ(job.exit_code, 1) << job.output;
  ASSERT_EQ(results().size(), 2U) << job.output;
  for (const CaseResult& result : results()) {
    EXPECT_EQ(result.symptom, "raised on purpose by rank 0 in step 4");
  }
}

TEST_F(MpiProgram, AnUnwritableResultFolderIsAnErrorOfTheHarness) {
  write_file(scratch_.path() / "out", std::string_view("a file, not a folder"));
  for (const int ranks : {1, 3}) {  // only rank 0 writes; the others must not wait for it
    const LaunchedJob job = run(ranks, quoted(kFirst));
    EXPECT_EQ(job.exit_code, 3) << job.output;
    EXPECT_EQ(count(job.output, out_.string()), 1) << job.output;
  }
}

TEST_F(MpiProgram, AnOptionLeavesThePatternBehindItAlone) {
  const LaunchedJob job = run(3, "--defect scale_through_bf16 " + quoted(kSecond));
  EXPECT_EQ(job.exit_code, 1) << job.output;
  EXPECT_EQ(results().size(), 1U);
}

TEST_F(MpiProgram, WhatIsRequiredAndMissingIsAnErrorThatSaysWhy) {
  const LaunchedJob on_cpu = run(3, quoted(kFirst) + "--require nccl");
  EXPECT_EQ(on_cpu.exit_code, 3) << on_cpu.output;
  EXPECT_EQ(results().at(0).reason,
            "needs nccl: the ranks compute on the CPU (--device cpu) (required by --require nccl)");
  const LaunchedJob on_devices = run(3, quoted(kFirst) + "--require nccl --device cuda");
  if (on_devices.exit_code == 0) GTEST_SKIP() << "there is a device for each rank";
  EXPECT_EQ(on_devices.exit_code, 3) << on_devices.output;
  EXPECT_NE(results().at(0).reason.find("rank"), std::string::npos) << results()[0].reason;
}

TEST_F(MpiProgram, WithoutADeviceCudaIsASkipWithTheReason) {
  const LaunchedJob job = run(1, "'adamw8bit/*dp1->dp1*' --device cuda");
  if (job.exit_code == 0) GTEST_SKIP() << "there is a device, and the cases passed on it";
  EXPECT_EQ(job.exit_code, 77) << job.output;
  EXPECT_NE(results().at(0).reason.find("cuda"), std::string::npos) << results()[0].reason;
}

}  // namespace
}  // namespace resumecheck
