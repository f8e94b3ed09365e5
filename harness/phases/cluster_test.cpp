// What clusters do to a harness, done on purpose to the built program: ranks, forks, servers and
// the harness itself are killed, hung, flooded and interrupted, and disks fill up. After each, the
// verdict, its symptom and the exit code must be right, results.jsonl must hold whole lines only,
// and no process may be left.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "harness/phases/process.h"
#include "harness/state/file.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kTag = "RESUMECHECK_TEST_TAG";
const fs::path kTestdata = fs::path(RESUMECHECK_SOURCE_DIR) / "harness/phases/testdata";

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

class ClusterTest : public testing::Test {
 protected:
  ClusterTest() : tag_(fmt::format("{}-{}", getpid(), folder_.path().filename().string())) {}
  ~ClusterTest() override {
    EXPECT_TRUE(eventually([&] { return processes().empty(); }))
        << "left behind: " << command_of(processes().empty() ? 0 : processes().front());
    for (const pid_t process : processes()) kill(process, SIGKILL);
    umount2(out().c_str(), MNT_DETACH);
  }

  fs::path out() const { return folder_ / "out"; }
  std::string scenario(const std::string& name) const { return (kTestdata / name).string(); }

  // Starts `resumecheck run ARGUMENTS --out ...` with a variable by which all of it is known.
  pid_t start(std::vector<std::string> arguments, const std::function<void()>& in_child = {}) {
    const fs::path program = fs::path(RESUMECHECK_BINARY_DIR) / "resumecheck";
    arguments.insert(arguments.begin(), {program.string(), "run"});
    if (std::find(arguments.begin(), arguments.end(), "--out") == arguments.end()) {
      arguments.insert(arguments.end(), {"--out", out().string()});
    }
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    const fs::path printed = folder_ / fmt::format("printed{}", ++started_);
    const pid_t process = fork();
    if (process != 0) return process;
    setenv(kTag, tag_.c_str(), 1);
    setenv("RESUMECHECK_ROOT", RESUMECHECK_SOURCE_DIR, 1);
    if (freopen(printed.c_str(), "w", stdout) == nullptr) _exit(98);
    dup2(1, 2);
    if (in_child) in_child();
    execv(pointers[0], pointers.data());
    _exit(99);
  }

  int finish(pid_t process) {
    int status = 0;
    if (!eventually([&] { return waitpid(process, &status, WNOHANG) == process; }, 60)) {
      ADD_FAILURE() << "the program did not end within 60 s";
      kill(process, SIGKILL);
      waitpid(process, &status, 0);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  int run(std::vector<std::string> arguments) { return finish(start(std::move(arguments))); }
  std::string printed() const { return read_file(folder_ / fmt::format("printed{}", started_)); }

  // Every case's object; the file must hold whole lines, the first of which is the machine's.
  std::vector<Json> results() const {
    const std::string text = read_file(out() / "results.jsonl");
    EXPECT_FALSE(text.empty());
    EXPECT_EQ(text.back(), '\n') << "the last line of results.jsonl is cut";
    std::vector<Json> all;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const Json object = Json::parse(line, nullptr, false);
      EXPECT_FALSE(object.is_discarded()) << "no JSON: " << line;
      if (object.contains("case")) all.push_back(object);
    }
    return all;
  }
  Json only_result() const {
    const std::vector<Json> all = results();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? Json() : all.front();
  }

  std::vector<pid_t> processes() const {
    std::vector<pid_t> mine;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const pid_t process = std::atoi(entry.path().filename().c_str());
      if (process > 0 && variable_of(process, kTag) == tag_) mine.push_back(process);
    }
    return mine;
  }
  static std::string command_of(pid_t process) {
    std::string text = read_file(fmt::format("/proc/{}/cmdline", process));
    std::replace(text.begin(), text.end(), '\0', ' ');
    return text;
  }
  static pid_t parent_of(pid_t process) {
    std::ifstream stat(fmt::format("/proc/{}/stat", process));
    std::string text;
    std::getline(stat, text);
    pid_t parent = 0;
    char state = 0;
    std::sscanf(text.c_str() + text.rfind(')') + 1, " %c %d", &state, &parent);
    return parent;
  }
  // The server of a rank, or the fork in which it runs a phase.
  pid_t server(int rank, bool its_fork) const {
    for (const pid_t process : processes()) {
      std::error_code gone;
      if (fs::read_symlink(fmt::format("/proc/{}/exe", process), gone)
              .filename()
              .string()
              .find("python") == std::string::npos) {
        continue;
      }
      if (variable_of(process, "OMPI_COMM_WORLD_RANK") != std::to_string(rank)) continue;
      const bool forked = variable_of(parent_of(process), "OMPI_COMM_WORLD_RANK") != "";
      if (forked == its_fork) return process;
    }
    return 0;
  }

  static bool eventually(const std::function<bool()>& condition, double seconds = 10) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      usleep(10000);
    }
    return true;
  }
  // Some rank has announced this part of its phase.
  bool reached(const std::string& part) const {
    std::error_code ignored;
    if (!fs::exists(out() / "work", ignored)) return false;
    for (const auto& folder : fs::directory_iterator(out() / "work", ignored)) {
      for (const int rank : {0, 1}) {
        if (first_line(folder.path() / "records" / fmt::format("progress_rank{}", rank)) == part) {
          return true;
        }
      }
    }
    return false;
  }
  void wait_until_reached(const std::string& part) const {
    ASSERT_TRUE(eventually([&] { return reached(part); }, 30)) << "no rank came to " << part;
  }
  // The kept file of the resume run of the only case.
  std::string artifact(const std::string& name) const {
    const fs::path folder = only_result()["artifacts"].get<std::string>();
    return read_file(folder / "resume_run" / name);
  }

  void expect(const Json& result, const std::string& verdict, const std::string& failed_at,
              const std::string& symptom) const {
    EXPECT_EQ(result["verdict"], verdict) << result.dump();
    EXPECT_EQ(result["failed_at"], failed_at);
    EXPECT_THAT(result["symptom"].get<std::string>(), HasSubstr(symptom));
  }

  TemporaryFolder folder_;
  std::string tag_;
  int started_ = 0;
};

// ---- ranks ---------------------------------------------------------------------------------

struct Fault {
  const char* name;
  const char* defect;
  const char* verdict;
  const char* failed_at;
  const char* symptom;
};

class RankFaultTest : public ClusterTest, public testing::WithParamInterface<Fault> {
 protected:
  void check(const std::string& pattern) {
    const Fault& fault = GetParam();
    const int code = run({pattern, "--defect", fault.defect});
    expect(only_result(), fault.verdict, fault.failed_at, fault.symptom);
    EXPECT_EQ(code, std::string(fault.verdict) == "PASS" ? 0 : 1) << printed();
    EXPECT_THAT(only_result()["notes"].dump(), HasSubstr("under --defect"));
  }
};

TEST_P(RankFaultTest, OnRankServers) {
  check(scenario("plain.toml") + "[plain_python@system,dp2->dp2]");
  EXPECT_EQ(only_result()["process"], "forked");
}

INSTANTIATE_TEST_SUITE_P(
    ClusterTest, RankFaultTest,
    testing::Values(
        Fault{"killed", "kill_rank:1:step 4", "FAIL", "step 4", "rank 1 died: signal 9 (SIGKILL)"},
        Fault{"killed_while_saving", "kill_rank:0:save", "FAIL", "save", "rank 0 died: signal 9"},
        Fault{"left_early", "exit_early:1:load", "FAIL", "load", "rank 1 exited with status 0"},
        Fault{"raised", "raise_exception:0:load", "FAIL", "load", "raised on purpose"},
        Fault{"truncated", "truncate_checkpoint", "FAIL", "load", ""},
        Fault{"no_checkpoint", "remove_checkpoint", "FAIL", "load", "checkpoint"}),
    [](const auto& info) { return std::string(info.param.name); });

class NativeRankFaultTest : public RankFaultTest {};

TEST_P(NativeRankFaultTest, OnNativeRanks) {
  check(scenario("reference.toml") + "[reference,dp2->dp2]");
}

INSTANTIATE_TEST_SUITE_P(
    ClusterTest, NativeRankFaultTest,
    testing::Values(
        Fault{"killed", "kill_rank:1:step 4", "FAIL", "step 4", "rank 1 died: signal 9 (SIGKILL)"},
        Fault{"left_early", "exit_early:1:step 4", "FAIL", "step 4", "rank 1 exited with status 0"},
        Fault{"raised", "raise_exception:1:load", "FAIL", "load", "raised on purpose by rank 1"},
        Fault{"truncated", "truncate_checkpoint", "FAIL", "load", "checkpoint/state_rank"},
        Fault{"no_checkpoint", "remove_checkpoint", "FAIL", "load", "checkpoint"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(ClusterTest, HungRanksLeaveTheirStacks) {
  const int code = run({scenario("plain.toml") + "[plain_python@system,dp2->dp2]", "--time-limit",
                        "2", "--defect", "hang_rank:1:step 4"});
  EXPECT_EQ(code, 1) << printed();
  expect(only_result(), "FAIL", "step 4", "hang in step 4");
  EXPECT_THAT(artifact("stacks_rank1.txt"), HasSubstr("_hang_rank"));
}

TEST_F(ClusterTest, HungNativeRanksLeaveTheirStacks) {
  const int code = run({scenario("reference.toml") + "[reference,dp2->dp2]", "--time-limit", "2",
                        "--defect", "hang_rank:1:step 4"});
  EXPECT_EQ(code, 1) << printed();
  expect(only_result(), "FAIL", "step 4", "hang in step 4");
  EXPECT_FALSE(artifact("stacks_rank1.txt").empty());
}

TEST_F(ClusterTest, ColdRanksThatHangAreEndedToo) {
  const int code = run({scenario("plain.toml") + "[plain_python@system,dp2->dp2]", "--cold",
                        "--time-limit", "2", "--defect", "hang_rank:0:step 4"});
  expect(only_result(), "FAIL", "step 4", "hang in step 4");
  EXPECT_EQ(only_result()["process"], "new");
  EXPECT_EQ(code, 1);
}

TEST_F(ClusterTest, FloodIsCutAndNoted) {
  const int code = run({scenario("plain.toml") + "[plain_python@system,dp2->dp2]", "--keep",
                        "--defect", "flood_output:1:step 4"});
  EXPECT_EQ(code, 0) << printed();
  EXPECT_THAT(only_result()["notes"].dump(), HasSubstr("rank 1 printed 200"));
  std::uintmax_t largest = 0;
  for (const auto& entry : fs::recursive_directory_iterator(out())) {
    if (entry.is_regular_file()) largest = std::max(largest, entry.file_size());
  }
  EXPECT_LT(largest, 1u << 20) << "a flood must not reach the disk";
}

TEST_F(ClusterTest, DefectIsOfTheSelectedCasesOnly) {
  const std::string file = scenario("reference.toml");
  EXPECT_EQ(run({"--defect", "scale_through_bf16", file + "[reference,dp2->dp2]"}), 1) << printed();
  expect(only_result(), "FAIL", "after_load", "moment1.scale of up");
  EXPECT_EQ(run({"--defect", "scale_through_bf16", scenario("plain.toml")}), 2);
  EXPECT_THAT(printed(), HasSubstr("add --adapter reference"));
}

// ---- forks, servers, launchers -------------------------------------------------------------

TEST_F(ClusterTest, ServersLeaveNothingBehind) {
  EXPECT_EQ(run({scenario("plain.toml") + "[plain_python@system,dp2->dp2]"}), 0) << printed();
  for (const auto& entry : fs::recursive_directory_iterator(out())) {
    EXPECT_FALSE(entry.path().filename().string().starts_with("servers-")) << entry.path();
  }
}

TEST_F(ClusterTest, KilledForkIsAVerdictAndItsServerGoesOn) {
  const pid_t program = start({scenario("slow_steps.py")});
  wait_until_reached("step 3");
  const pid_t fork = server(1, true);
  ASSERT_GT(fork, 0);
  kill(fork, SIGKILL);
  EXPECT_EQ(finish(program), 1) << printed();
  const std::vector<Json> all = results();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0]["verdict"], "FAIL");
  EXPECT_EQ(all[0]["symptom"], "rank 1 died: signal 9 (SIGKILL)");
  EXPECT_EQ(all[1]["verdict"], "PASS");
  EXPECT_EQ(all[2]["verdict"], "PASS");
}

TEST_F(ClusterTest, KilledServerIsErrorAndTheNextCaseGetsANewOne) {
  const pid_t program = start({scenario("slow_steps.py")});
  wait_until_reached("step 3");
  const pid_t killed = server(1, false);
  ASSERT_GT(killed, 0);
  kill(killed, SIGKILL);
  EXPECT_EQ(finish(program), 3) << printed();
  const std::vector<Json> all = results();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0]["verdict"], "ERROR");
  EXPECT_THAT(all[0]["reason"].get<std::string>(), HasSubstr("rank servers of plain_python"));
  EXPECT_EQ(all[1]["verdict"], "PASS");
  EXPECT_EQ(all[2]["verdict"], "PASS");
}

TEST_F(ClusterTest, LauncherThatFailsIsError) {
  const int code = run({scenario("reference.toml") + "[reference,dp2->dp2]", "--launcher",
                        "sh -c 'echo no allocation {n} >&2; exit 7'"});
  EXPECT_EQ(code, 3) << printed();
  EXPECT_EQ(only_result()["verdict"], "ERROR");
  EXPECT_THAT(only_result()["reason"].get<std::string>(),
              AllOf(HasSubstr("exited with status 7"), HasSubstr("no allocation 2")));
}

TEST_F(ClusterTest, LauncherThatIsMissingIsOneLine) {
  EXPECT_EQ(run({scenario("plain.toml"), "--launcher", "no-such-launcher -n {n}"}), 2);
  EXPECT_THAT(printed(), HasSubstr("there is no program 'no-such-launcher'"));
  const std::string text = printed();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST_F(ClusterTest, OtherLaunchersWork) {
  const int code = run(
      {scenario("plain.toml"), "--launcher", fmt::format("{} -n {{n}}", scenario("launch.sh"))});
  EXPECT_EQ(code, 0) << printed();
  EXPECT_EQ(results().size(), 2u);
}

TEST_F(ClusterTest, KnownDefectIsConfirmedByAFreshStart) {
  EXPECT_EQ(run({scenario("known_defect.py")}), 0) << printed();
  expect(only_result(), "XFAIL", "load", "no such luck");
  EXPECT_THAT(only_result()["notes"].dump(), HasSubstr("\"confirmed cold"));
}

// The second case fails in the same words, under the same entry and environment.
TEST_F(ClusterTest, KnownDefectIsConfirmedOnceARun) {
  EXPECT_EQ(run({scenario("known_defect_twice.py")}), 0) << printed();
  const std::vector<Json> all = results();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_THAT(all[0]["notes"].dump(), HasSubstr("\"confirmed cold\""));
  EXPECT_THAT(all[1]["notes"].dump(), HasSubstr("\"confirmed cold by known_defect_twice["));
}

TEST_F(ClusterTest, DefectThatOnlyForksShowIsNotTheKnownOne) {
  EXPECT_EQ(run({scenario("defect_of_forks.py")}), 1) << printed();
  expect(only_result(), "FAIL", "load", "no such luck");
  EXPECT_THAT(only_result()["notes"].dump(),
              HasSubstr("not confirmed cold: forked 'load: no such luck', freshly started a pass"));
}

TEST_F(ClusterTest, ResumeThatWritesIntoTheCheckpointFails) {
  EXPECT_EQ(run({scenario("resume_that_writes.py")}), 1) << printed();
  expect(only_result(), "FAIL", "load", "rank1.json was changed");
}

TEST_F(ClusterTest, CodeThatCannotBeReadIsAMistakeOfItsAuthor) {
  const fs::path broken = folder_ / "broken.py";
  const std::string whole = read_file(kTestdata / "slow_steps.py");
  write_file(broken, whole + "def load(:\n");
  const auto lines = std::count(whole.begin(), whole.end(), '\n');
  EXPECT_EQ(finish(start({broken.string()})), 2) << printed();
  EXPECT_THAT(printed(), HasSubstr(fmt::format("broken.py:{}: SyntaxError", lines + 1)));
  const std::vector<Json> all = results();
  ASSERT_EQ(all.size(), 3u);
  for (const Json& result : all) EXPECT_EQ(result["verdict"], "ERROR") << result;
}

TEST_F(ClusterTest, APythonThatCannotBeUsedIsToldOnce) {
  EXPECT_EQ(finish(start({"adamw8bit/moments_survive_mesh_change", "--adapter", "torchao", "--env",
                          "mine=/no/such/python"})),
            3);
  EXPECT_GT(results().size(), 2u);
  const std::string told = printed();
  const std::string reason = "there is no program /no/such/python";
  EXPECT_THAT(told, HasSubstr(fmt::format("and {} more cases: ", results().size() - 1)));
  EXPECT_LE(told.size(), 200 * results().size() + 3000) << told;
  EXPECT_NE(told.find(reason), told.npos) << told;
}

// ---- signals -------------------------------------------------------------------------------

struct Moment {
  const char* name;
  int signal;
  const char* reached;  // "" = as soon as there are results to be written
  std::size_t finished;
};

class InterruptionTest : public ClusterTest, public testing::WithParamInterface<Moment> {};

TEST_P(InterruptionTest, KeepsWhatIsFinishedAndLeavesNothing) {
  const Moment& moment = GetParam();
  const pid_t program = start({scenario("slow_steps.py")});
  ASSERT_TRUE(eventually([&] { return fs::exists(out() / "results.jsonl"); }));
  if (moment.finished > 0) {
    ASSERT_TRUE(eventually([&] { return results().size() >= moment.finished; }, 30));
  }
  if (*moment.reached != 0) wait_until_reached(moment.reached);
  kill(program, moment.signal);
  EXPECT_EQ(finish(program), 3) << printed();
  const std::vector<Json> all = results();
  ASSERT_EQ(all.size(), 3u) << "each selected case must have a result";
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i]["verdict"], i < moment.finished ? "PASS" : "ERROR");
    if (i >= moment.finished) {
      EXPECT_EQ(all[i]["reason"], "interrupted: not run");
    }
  }
  EXPECT_THAT(read_file(out() / "junit.xml"), HasSubstr("</testsuites>"));
}

INSTANTIATE_TEST_SUITE_P(ClusterTest, InterruptionTest,
                         testing::Values(Moment{"while_starting", SIGINT, "", 0},
                                         Moment{"in_the_save_run", SIGINT, "save_run step 2", 0},
                                         Moment{"in_a_resume", SIGTERM, "step 4", 0},
                                         Moment{"between_cases", SIGHUP, "", 1}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(ClusterTest, InterruptedNativeRanksAreEnded) {
  const pid_t program = start({scenario("reference.toml"), "--defect", "hang_rank:1:step 4"});
  wait_until_reached("step 4");
  kill(program, SIGINT);
  EXPECT_EQ(finish(program), 3);
  EXPECT_EQ(results().size(), 2u);
}

TEST_F(ClusterTest, SecondInterruptionIsImmediate) {
  const pid_t program = start({scenario("slow_steps.py")});
  wait_until_reached("save_run step 2");
  kill(program, SIGINT);
  usleep(1000);
  kill(program, SIGINT);
  EXPECT_EQ(finish(program), 3);
  results();  // whole lines
}

TEST_F(ClusterTest, KilledHarnessLeavesNoServers) {
  const pid_t program = start({scenario("slow_steps.py")});
  ASSERT_TRUE(
      eventually([&] { return !fs::exists(out() / "results.jsonl") || !results().empty(); }, 30));
  wait_until_reached("step 3");
  EXPECT_GE(processes().size(), 5u) << "harness, launcher, servers and forks should be there";
  kill(program, SIGKILL);
  finish(program);
  EXPECT_TRUE(eventually([&] { return processes().empty(); }));
  results();
}

TEST_F(ClusterTest, KilledHarnessLeavesNoNativeRanks) {
  const pid_t program = start({scenario("reference.toml"), "--defect", "hang_rank:1:step 4"});
  wait_until_reached("step 4");
  kill(program, SIGKILL);
  finish(program);
  EXPECT_TRUE(eventually([&] { return processes().empty(); }));
}

// ---- disks and folders ---------------------------------------------------------------------

TEST_F(ClusterTest, ResultThatCannotBeWrittenLosesNoOther) {
  const std::vector<std::string> arguments = {scenario("plain.toml"), "--launcher",
                                              fmt::format("{} -n {{n}}", scenario("launch.sh"))};
  ASSERT_EQ(run(arguments), 0) << printed();
  const std::uintmax_t whole = fs::file_size(out() / "results.jsonl");
  const int code = finish(start(arguments, [&] {
    const rlimit limit = {whole - 100, whole - 100};
    setrlimit(RLIMIT_FSIZE, &limit);
  }));
  EXPECT_EQ(code, 3) << printed();
  EXPECT_THAT(printed(), AllOf(HasSubstr("results.jsonl"), HasSubstr("File too large")));
  EXPECT_EQ(results().size(), 1u) << "the first result fits and must stay";
}

TEST_F(ClusterTest, FullDiskIsErrorNotTheFrameworksFault) {
  fs::create_directories(out());
  if (mount("tmpfs", out().c_str(), "tmpfs", 0, "size=72k") != 0) {
    GTEST_SKIP() << "only who may mount a small file system can fill it";
  }
  const int code = run({scenario("reference.toml")});
  EXPECT_EQ(code, 3) << printed();
  for (const Json& result : results()) {
    EXPECT_EQ(result["verdict"], "ERROR") << result.dump();
    EXPECT_THAT(result["reason"].get<std::string>(), testing::ContainsRegex("[Nn]o space left"));
  }
}

TEST_F(ClusterTest, OneFolderOneRun) {
  const pid_t first = start({scenario("slow_steps.py")});
  ASSERT_TRUE(eventually([&] { return fs::exists(out() / "results.jsonl"); }));
  EXPECT_EQ(run({scenario("plain.toml")}), 3);
  EXPECT_THAT(printed(), HasSubstr("another resumecheck is writing there"));
  EXPECT_EQ(finish(first), 0) << "the first run must not be disturbed";
  EXPECT_EQ(results().size(), 3u);
}

}  // namespace
}  // namespace resumecheck
