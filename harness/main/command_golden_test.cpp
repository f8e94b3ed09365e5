// `resumecheck golden` as a CI job meets it: exit codes and the words that matter, on a project
// folder of its own.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "harness/state/file.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;

class GoldenCommand : public testing::Test {
 protected:
  GoldenCommand() { write_scenario("3e-3"); }

  void write_scenario(const std::string& lr) {
    fs::create_directories(root_ / "scenarios" / "adamw8bit");
    fs::create_directories(root_ / "golden");
    fs::create_directories(root_ / "tools");
    write_file(root_ / "scenarios" / "adamw8bit" / "holds.toml",
               "summary = \"holds\"\nadapters = [\"reference\"]\n[model]\nup = [32, 256]\n"
               "[optimizer]\nname = \"adamw8bit\"\nlr = " +
                   lr +
                   "\n[run]\ngradients = \"order_free\"\nsave_after = 2\ntrain_until = 3\n"
                   "[[resume]]\nfrom = \"dp2\"\nonto = [\"dp1\"]\n"
                   "[compare]\nparts = [\"param\"]\noracles = [\"after_load\", \"golden\"]\n");
  }

  // Exit code; what was printed is in output_.
  int golden(const std::string& arguments) {
    const std::string command = "RESUMECHECK_ROOT='" + root_.string() +
                                "' " RESUMECHECK_BINARY_DIR "/resumecheck golden " + arguments +
                                " 2>&1";
    output_.clear();
    FILE* pipe = popen(command.c_str(), "r");
    char buffer[4096];
    while (const std::size_t n = fread(buffer, 1, sizeof buffer, pipe)) output_.append(buffer, n);
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  bool says(const std::string& part) const { return output_.find(part) != std::string::npos; }

  TemporaryFolder scratch_;
  fs::path root_ = scratch_.path();
  fs::path file_ = root_ / "golden" / "adamw8bit" / "holds.json";
  std::string output_;
};

TEST_F(GoldenCommand, UpdateWritesAndVerifyAgreesButNoGpuHasConfirmedIt) {
  EXPECT_EQ(golden("update --reason 'it is new'"), 0) << output_;
  EXPECT_TRUE(says("new")) << output_;
  EXPECT_EQ(golden("verify"), 0) << output_;
  EXPECT_TRUE(says("not yet confirmed on a GPU")) << output_;
  EXPECT_EQ(golden("update --reason 'again'"), 0);
  EXPECT_TRUE(says("unchanged")) << output_;
}

TEST_F(GoldenCommand, UpdateWithoutAReasonIsRefused) {
  for (const char* arguments : {"update", "update --reason ''", "update --reason ' '"}) {
    EXPECT_EQ(golden(arguments), 2) << output_;
    EXPECT_FALSE(fs::exists(file_));
  }
}

TEST_F(GoldenCommand, AMissingGoldenNamesTheCommand) {
  EXPECT_EQ(golden("verify"), 3) << output_;
  EXPECT_TRUE(says("resumecheck golden update adamw8bit/holds --reason")) << output_;
}

TEST_F(GoldenCommand, ATruncatedGoldenIsUnreadable) {
  golden("update --reason x");
  fs::resize_file(file_, fs::file_size(file_) / 2);
  EXPECT_EQ(golden("verify"), 3) << output_;
  EXPECT_TRUE(says("holds.json")) << output_;
}

TEST_F(GoldenCommand, AChangedScenarioSaysThatTheGoldenIsOfOtherSettings) {
  golden("update --reason x");
  write_scenario("4e-3");
  EXPECT_EQ(golden("verify"), 3) << output_;
  EXPECT_TRUE(says("other settings")) << output_;
  EXPECT_EQ(golden("update --reason 'another lr'"), 0) << output_;
  EXPECT_TRUE(says("differ from the golden of")) << output_;
  EXPECT_TRUE(says("(x): 2 param; first is param of up at step 2")) << output_;
  EXPECT_EQ(golden("verify"), 0) << output_;
}

// As after a change of the arithmetic: another run's digests under this scenario's name.
TEST_F(GoldenCommand, ADifferentGoldenIsOneAndExplained) {
  golden("update --reason x");
  const std::string right = read_file(file_);
  write_scenario("4e-3");
  golden("update --reason y");
  std::string wrong = read_file(file_);
  write_scenario("3e-3");
  const auto settings_of = [](const std::string& text) {
    return text.substr(text.find("\"settings_digest\""), 52);
  };
  wrong.replace(wrong.find(settings_of(wrong)), 52, settings_of(right));
  write_file(file_, wrong);
  EXPECT_EQ(golden("verify"), 1) << output_;
  EXPECT_TRUE(says("DIFFERENT  adamw8bit/holds")) << output_;
  EXPECT_TRUE(says("agree with each other")) << output_;
  EXPECT_TRUE(says("slow twin")) << output_;
}

// As a renamed scenario leaves behind; asked for by name, the others are not looked at.
TEST_F(GoldenCommand, AGoldenThatNoScenarioAsksForIsDifferent) {
  golden("update --reason x");
  fs::copy_file(file_, file_.parent_path() / "held.json");
  EXPECT_EQ(golden("verify"), 1) << output_;
  EXPECT_TRUE(says("held.json   no scenario asks for it")) << output_;
  EXPECT_EQ(golden("verify adamw8bit/holds"), 0) << output_;
}

TEST_F(GoldenCommand, APatternThatMatchesNothingIsAUsageError) {
  EXPECT_EQ(golden("verify 'no/*'"), 2) << output_;
}

}  // namespace
}  // namespace resumecheck
