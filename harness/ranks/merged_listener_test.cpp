// Runs real jobs of tests that fail on one rank only and reads what a person would see.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

struct Ended {
  int exit_code = 0;
  std::string output;
};

Ended run_subject(const std::string& arguments) {
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  const std::string command = std::string(RESUMECHECK_MPIRUN) +
                              " --oversubscribe --bind-to none -np 2 " RESUMECHECK_BINARY_DIR
                              "/merged_listener_subject --gtest_color=no " +
                              arguments + " 2>&1";
  Ended ended;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {-1, "popen failed"};
  char buffer[4096];
  while (const std::size_t n = fread(buffer, 1, sizeof buffer, pipe))
    ended.output.append(buffer, n);
  const int status = pclose(pipe);
  ended.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST(MergedListener, AFailureOfAnotherRankFailsTheTestAndIsPrintedOnceWithItsRank) {
  const Ended ended = run_subject("--gtest_filter=Subject.FailsOnRankOne");
  EXPECT_EQ(ended.exit_code, 1) << ended.output;
  EXPECT_EQ(count(ended.output, "the only thing wrong"), 1) << ended.output;
  EXPECT_EQ(count(ended.output, "on rank 1: "), 1) << ended.output;
  EXPECT_EQ(count(ended.output, "[  FAILED  ] Subject.FailsOnRankOne ("), 1) << ended.output;
}

TEST(MergedListener, AFailureOfRankZeroNamesItsRankToo) {
  const Ended ended = run_subject("--gtest_filter=Subject.FailsOnRankZero");
  EXPECT_EQ(ended.exit_code, 1) << ended.output;
  EXPECT_EQ(count(ended.output, "wrong where it is printed"), 1) << ended.output;
  EXPECT_EQ(count(ended.output, "on rank 0"), 1) << ended.output;
}

TEST(MergedListener, AnExceptionOnOneRankIsAFailureOfTheTest) {
  const Ended ended = run_subject("--gtest_filter=Subject.ThrowsOnRankOne");
  EXPECT_EQ(ended.exit_code, 1) << ended.output;
  EXPECT_EQ(count(ended.output, "thrown, not reported"), 1) << ended.output;
}

TEST(MergedListener, APassIsPrintedOnceAndEndsWithZero) {
  const Ended ended = run_subject("--gtest_filter=Subject.PassesEverywhere");
  EXPECT_EQ(ended.exit_code, 0) << ended.output;
  EXPECT_EQ(count(ended.output, "[       OK ] Subject.PassesEverywhere"), 1) << ended.output;
}

// Ranks that shuffle differently would meet each other in different tests.
TEST(MergedListener, RanksShuffleAlike) {
  const Ended ended = run_subject("--gtest_shuffle --gtest_repeat=3");
  EXPECT_EQ(ended.exit_code, 1) << ended.output;
  EXPECT_EQ(count(ended.output, "[       OK ] Subject.PassesEverywhere"), 3) << ended.output;
}

}  // namespace
