#include "harness/scenario/program_output.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

namespace resumecheck {
namespace {

TEST(ProgramOutput, KeepsWhatWasSaidOnBothSides) {
  const auto output = run_program({"sh", "-c", "echo out; echo err >&2; exit 3"}, 30);
  EXPECT_TRUE(output.started);
  EXPECT_FALSE(output.timed_out);
  EXPECT_EQ(output.exit_status, 3);
  EXPECT_EQ(output.text, "out\n");
  EXPECT_EQ(output.errors, "err\n");
}

TEST(ProgramOutput, StandardInputIsEmpty) {
  EXPECT_EQ(run_program({"cat"}, 30).exit_status, 0) << "a program that reads would wait for ever";
}

TEST(ProgramOutput, AFloodIsReadToItsEndAndCut) {
  const auto output = run_program({"sh", "-c", "head -c 20000000 /dev/zero; exit 5"}, 30);
  EXPECT_EQ(output.exit_status, 5);
  EXPECT_EQ(output.text.size(), std::size_t{1} << 20);
}

TEST(ProgramOutput, WhatHangsIsEndedWithItsChildren) {
  const auto output = run_program({"sh", "-c", "sleep 600 & echo $!; wait"}, 0.3);
  EXPECT_TRUE(output.timed_out);
  EXPECT_EQ(output.exit_status, -1);
  const pid_t child = std::stoi(output.text);
  // Its end is asynchronous, and an init that does not reap leaves it as a zombie.
  for (int i = 0; i < 500 && kill(child, 0) == 0; ++i) {
    const auto state = run_program({"sh", "-c", "ps -o stat= -p " + output.text}, 30).text;
    if (state.empty() || state[0] == 'Z') return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_NE(kill(child, 0), 0) << "sleep " << child << " was left behind";
}

TEST(ProgramOutput, AnAbsentProgramIsAnAnswer) {
  const auto output = run_program({"/no/such/program"}, 30);
  EXPECT_FALSE(output.started);
  EXPECT_NE(output.exit_status, 0);
  EXPECT_FALSE(find_on_path("no-such-program").has_value());
  EXPECT_FALSE(find_on_path("").has_value());
  EXPECT_FALSE(find_on_path("/tmp").has_value()) << "a folder is no program";
  EXPECT_TRUE(find_on_path("sh").has_value());
}

}  // namespace
}  // namespace resumecheck
