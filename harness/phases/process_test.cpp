// Every way a program can be a burden: it floods, it hangs, it ignores SIGTERM, it leaves children
// in sessions of their own, it is killed itself. After each, nothing of it may be left.
#include "harness/phases/process.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "harness/phases/interruption.h"
#include "harness/state/error.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;

class ProcessTest : public testing::Test {
 protected:
  ProcessTest() {
    static int count = 0;
    folder_ =
        fs::temp_directory_path() / fmt::format("resumecheck_process_{}_{}", getpid(), ++count);
    fs::create_directories(folder_);
  }
  ~ProcessTest() override { fs::remove_all(folder_); }

  static std::vector<std::string> shell(const std::string& script) { return {"sh", "-c", script}; }
  std::string in_folder(const std::string& name) const { return (folder_ / name).string(); }

  // The number that a script wrote, once it is there.
  pid_t process_in(const std::string& name) const {
    for (int tries = 0; tries < 1000; ++tries) {
      std::ifstream file(folder_ / name);
      pid_t process = 0;
      std::string rest;
      if (file >> process) return process;
      usleep(10000);
    }
    ADD_FAILURE() << "the script never wrote " << name;
    return 0;
  }

  fs::path folder_;
};

bool alive(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);
  const std::size_t after_name = text.rfind(')');
  return after_name != std::string::npos && text[after_name + 2] != 'Z';
}

TEST_F(ProcessTest, ReportsStatusAndBothStreams) {
  Process process(shell("echo out; echo err >&2; exit 3"), {});
  const auto end = process.wait(20);
  ASSERT_TRUE(end) << "a short script did not end within 20 s";
  EXPECT_EQ(end->exit_status, 3);
  EXPECT_EQ(end->signal, 0);
  EXPECT_EQ(process.output(), "out\nerr\n");
}

TEST_F(ProcessTest, ReportsTheSignalThatKilledIt) {
  Process process(shell("kill -9 $$"), {});
  const auto end = process.wait(20);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->signal, SIGKILL);
  EXPECT_EQ(to_text(*end), "died: signal 9 (SIGKILL)");
}

TEST_F(ProcessTest, AddsToTheEnvironment) {
  Process process(shell("echo $MINE-${HOME:+kept}"), {{"MINE", "a b"}});
  ASSERT_TRUE(process.wait(20));
  EXPECT_EQ(process.output(), "a b-kept\n") << "the harness's own variables must stay";
}

TEST_F(ProcessTest, MissingProgramIsOneClearError) {
  try {
    Process process({"no-such-launcher"}, {});
    FAIL() << "a program that does not exist was started";
  } catch (const Error& problem) {
    EXPECT_EQ(problem.kind(), Error::Kind::harness);
    EXPECT_NE(std::string(problem.what()).find("no-such-launcher: cannot be started"),
              std::string::npos)
        << problem.what();
  }
}

TEST_F(ProcessTest, FloodNeitherBlocksNorIsKept) {
  Process process(shell("echo begin; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo end"), {});
  ASSERT_TRUE(process.wait(60)) << "the flood blocked the program";
  const std::string output = process.output();
  EXPECT_LT(output.size(), 200u * 1024);
  EXPECT_EQ(output.rfind("begin\n", 0), 0u) << "the first lines are lost";
  EXPECT_NE(output.find("end\n"), std::string::npos) << "the last lines are lost";
  EXPECT_NE(output.find("bytes of output left out"), std::string::npos);
}

TEST_F(ProcessTest, WaitEndsAtTheLimit) {
  Process process(shell("sleep 1000"), {});
  EXPECT_FALSE(process.wait(0.1));
  process.end(0);
  ASSERT_TRUE(process.ended());
  EXPECT_FALSE(process.ended()->well());
}

TEST_F(ProcessTest, EndsGrandchildrenInSessionsOfTheirOwn) {
  Process process(
      shell(fmt::format(
          "setsid sh -c 'echo $$ >{0}; sleep 1000' & "
          "setsid sh -c 'trap \"\" TERM HUP; echo $$ >{1}; while :; do sleep 1; done' & wait",
          in_folder("a"), in_folder("b"))),
      {});
  const pid_t first = process_in("a"), second = process_in("b");
  EXPECT_TRUE(alive(first));
  process.end(0.1);
  EXPECT_FALSE(alive(first)) << "a process in a session of its own outlived the program";
  EXPECT_FALSE(alive(second)) << "a process that ignores SIGTERM outlived the program";
}

TEST_F(ProcessTest, EndsWhatTheProgramLeftBehind) {
  Process process(shell(fmt::format("setsid sh -c 'echo $$ >{}; exec sleep 1000' & sleep 0.3",
                                    in_folder("left"))),
                  {});
  ASSERT_TRUE(process.wait(20)) << "a child that holds the output open kept the program alive";
  EXPECT_FALSE(alive(process_in("left")));
}

TEST_F(ProcessTest, TerminatesGentlyWithinTheGrace) {
  Process process(shell(fmt::format(
                      "trap 'echo 1 >{0}; exit 0' TERM; echo 1 >{1}; while :; do sleep 0.05; done",
                      in_folder("gentle"), in_folder("ready"))),
                  {});
  process_in("ready");
  process.end(20);
  EXPECT_TRUE(fs::exists(folder_ / "gentle")) << "SIGTERM must come before SIGKILL";
}

TEST_F(ProcessTest, NothingOutlivesAHarnessThatIsKilled) {
  const pid_t harness = fork();
  if (harness == 0) {
    Process process(shell(fmt::format("setsid sh -c 'echo $$ >{}; exec sleep 1000' & wait",
                                      in_folder("orphan"))),
                    {});
    process.wait(1000);
    _exit(0);
  }
  const pid_t orphan = process_in("orphan");
  ASSERT_TRUE(alive(orphan));
  kill(harness, SIGKILL);
  waitpid(harness, nullptr, 0);
  for (int tries = 0; tries < 500 && alive(orphan); ++tries) usleep(10000);
  EXPECT_FALSE(alive(orphan)) << "the guardian must end all when the harness is killed";
}

TEST_F(ProcessTest, KilledGuardianLeavesNothingAfterTheSweep) {
  adopt_orphans();
  Process process(
      shell(fmt::format("setsid sh -c 'echo $$ >{}; exec sleep 1000' & wait", in_folder("orphan"))),
      {});
  const pid_t orphan = process_in("orphan");
  const std::vector<pid_t> mine = descendants_of(getpid());
  ASSERT_FALSE(mine.empty());
  kill(mine.front(), SIGKILL);  // the guardian is the only child
  const auto end = process.wait(20);
  ASSERT_TRUE(end) << "a guardian that is gone must be noticed";
  EXPECT_FALSE(end->well());
  end_all_descendants();
  EXPECT_FALSE(alive(orphan));
}

TEST_F(ProcessTest, InterruptionEndsAWait) {
  const InterruptionHandlers handlers(3);
  Process process(shell("sleep 1000"), {});
  kill(getpid(), SIGINT);
  EXPECT_THROW(process.wait(20), Interrupted);
}

TEST(BoundedTextTest, KeepsBothEndsAndCountsTheRest) {
  BoundedText text(4);
  for (const char* piece : {"ab", "cdef", "ghijklmn", "op"}) text.append(piece, std::strlen(piece));
  EXPECT_EQ(text.text(), "abcd\n[... 8 bytes of output left out ...]\nmnop");
  EXPECT_EQ(text.total(), 16u);
}

TEST(BoundedTextTest, ShortTextIsWhole) {
  BoundedText text(4);
  text.append("abcdefgh", 8);
  EXPECT_EQ(text.text(), "abcdefgh");
}

TEST(LastLinesTest, TakesWholeLines) {
  EXPECT_EQ(last_lines("a\nb\nc\n", 2), "b\nc");
  EXPECT_EQ(last_lines("a", 3), "a");
  EXPECT_EQ(last_lines("", 3), "");
}

TEST(OutputTest, TheCauseIsNotBuriedUnderWhatTheLauncherAdds) {
  const std::string rule(74, '-');
  const std::string frame = rule +
                            "\nmpirun detected that one process failed:\n\n  Exit code: 3\n" +
                            rule + "\n" + rule + "\nPrimary job aborted.\n" + rule + "\n";
  EXPECT_EQ(why_it_ended("rank: no library\n" + frame), ": rank: no library");
  EXPECT_EQ(why_it_ended(frame),
            ": mpirun detected that one process failed:   Exit code: 3 Primary job aborted.");
  EXPECT_EQ(why_it_ended("srun: error: no partition\n"), ": srun: error: no partition");
  EXPECT_EQ(why_it_ended("\n"), "");
}

}  // namespace
}  // namespace resumecheck
