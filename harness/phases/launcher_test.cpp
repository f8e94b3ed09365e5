#include "harness/phases/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/state/error.h"

namespace resumecheck {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(SplitCommand, SplitsAsAShellWould) {
  EXPECT_THAT(split_command("  srun  -n {n} "), ElementsAre("srun", "-n", "{n}"));
  EXPECT_THAT(split_command("a 'b c' \"d \\\" e\" f\\ g ''"),
              ElementsAre("a", "b c", "d \" e", "f g", ""));
  EXPECT_THAT(split_command("--x='1 2'\"3\""), ElementsAre("--x=1 23"));
  EXPECT_THAT(split_command("$HOME '\\n'"), ElementsAre("$HOME", "\\n"));
  EXPECT_TRUE(split_command(" ").empty());
}

TEST(SplitCommand, OpenQuoteIsAnError) { EXPECT_THROW(split_command("srun 'n"), Error); }

TEST(LauncherTest, DefaultIsMpirun) {
  EXPECT_THAT(
      Launcher().command(4, {"prog", "--x"}),
      ElementsAre("mpirun", "--oversubscribe", "--bind-to", "none", "-np", "4", "prog", "--x"));
}

TEST(LauncherTest, OwnLauncherGetsTheNumberOfRanks) {
  EXPECT_THAT(Launcher("sh -n{n} --label=r{n}").command(3, {"p"}),
              ElementsAre("sh", "-n3", "--label=r3", "p"));
}

std::string message_of(const std::string& text) {
  try {
    Launcher launcher(text);
  } catch (const Error& problem) {
    EXPECT_EQ(problem.kind(), Error::Kind::usage);
    return problem.what();
  }
  return "no error";
}

TEST(LauncherTest, MistakesAreNamed) {
  EXPECT_THAT(message_of("no-such-launcher -n {n}"), HasSubstr("no program 'no-such-launcher'"));
  EXPECT_THAT(message_of("sh -n 2"), HasSubstr("{n}"));
  EXPECT_THAT(message_of(""), HasSubstr("empty"));
}

TEST(LauncherTest, OnlyRootIsAllowedToRunAsRoot) {
  EXPECT_EQ(Launcher().environment().count("OMPI_ALLOW_RUN_AS_ROOT"), geteuid() == 0 ? 1u : 0u);
}

}  // namespace
}  // namespace resumecheck
