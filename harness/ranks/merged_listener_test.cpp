// Runs real jobs of tests that fail on one rank only and reads what a person would see.
#include <gtest/gtest.h>

#include <string>

#include "harness/ranks/launched_job.h"

namespace resumecheck {
namespace {

LaunchedJob run_subject(const std::string& arguments) {
  return launch_job(
      2, RESUMECHECK_BINARY_DIR "/merged_listener_subject --gtest_color=no " + arguments);
}

TEST(MergedListener, AFailureOfAnotherRankFailsTheTestAndIsPrintedOnceWithItsRank) {
  const LaunchedJob ended = run_subject("--gtest_filter=Subject.FailsOnRankOne");
  EXPECT_EQ(ended.exit_code, 1) << ended.output;
  EXPECT_EQ(count(ended.output, "the only thing wrong"), 1) << ended.output;
  EXPECT_EQ(count(ended.output, "on rank 1: "), 1) << ended.output;
  EXPECT_EQ(count(ended.output, "[  FAILED  ] Subject.FailsOnRankOne ("), 1) << ended.output;
}

TEST(MergedListener, AFailureOfRankZeroNamesItsRankToo) {
  const LaunchedJob ended = run_subject("--gtest_filter=Subject.FailsOnRankZero");
  EXPECT_EQ(ended.exit_code, 1) << ended.output;
  EXPECT_EQ(count(ended.output, "wrong where it is printed"), 1) << ended.output;
  EXPECT_EQ(count(ended.output, "on rank 0"), 1) << ended.output;
}

TEST(MergedListener, AnExceptionOnOneRankIsAFailureOfTheTest) {
  const LaunchedJob ended = run_subject("--gtest_filter=Subject.ThrowsOnRankOne");
  EXPECT_EQ(ended.exit_code, 1) << ended.output;
  EXPECT_EQ(count(ended.output, "thrown, not reported"), 1) << ended.output;
}

TEST(MergedListener, APassIsPrintedOnceAndEndsWithZero) {
  const LaunchedJob ended = run_subject("--gtest_filter=Subject.PassesEverywhere");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_EQ(count(ended.output, "[       OK ] Subject.PassesEverywhere"), 1) << ended.output;
}

// Ranks that shuffle differently would meet each other in different tests.
TEST(MergedListener, RanksShuffleAlike) {
  const LaunchedJob ended = run_subject("--gtest_shuffle --gtest_repeat=3");
  EXPECT_EQ(ended.exit_code, 1) << ended.output;
  EXPECT_EQ(count(ended.output, "[       OK ] Subject.PassesEverywhere"), 3) << ended.output;
}

}  // namespace
}  // namespace resumecheck
