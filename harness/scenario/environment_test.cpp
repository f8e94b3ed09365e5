// An environment counts as made only by its own complete record, made from the lock as it is now: a
// half-made or outdated one that were used would put wrong versions beside results.
#include "harness/scenario/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "harness/state/expect_error.h"
#include "harness/state/file.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;
using Kind = Error::Kind;
using testing::HasSubstr;

// Sets a variable for the length of a test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    const char* before = ::getenv(name);
    if (before != nullptr) before_ = before;
    was_set_ = before != nullptr;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { was_set_ ? ::setenv(name_, before_.c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::string before_;
  bool was_set_ = false;
};

class EnvironmentTest : public testing::Test {
 protected:
  EnvironmentTest() : cache_("RESUMECHECK_CACHE", (folder_ / "cache").string()) {
    for (const char* name : {"scenarios", "golden", "tools/locks"}) {
      fs::create_directories(folder_.path() / name);
    }
    write("tools/environments.toml",
          "[environments.\"torch-2.8\"]\npackages = [\"torch==2.8.0\", \"torchao==0.12.0\"]\n"
          "check = \"import torch\"\n");
    write("tools/locks/torch-2.8.lock", "the lock\n");
    fs::copy_file(fs::path(RESUMECHECK_SOURCE_DIR) / "tools" / "describe_environment.py",
                  folder_.path() / "tools" / "describe_environment.py");
  }

  void write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_.path() / name).parent_path());
    write_file(folder_.path() / name, text);
  }
  // As tools/environments leaves it.
  void make() {
    write(made_ + "/environment.json",
          R"({"schema": 1, "name": "torch-2.8", "python": "3.11.7",
              "packages": {"torch": "2.8.0+cpu", "torchao": "0.12.0"}})");
    write(made_ + "/requirements.lock", "the lock\n");
    write(made_ + "/bin/python", "");
  }
  Environment only(const std::vector<std::string>& own = {}) {
    const auto found = find_environments(folder_.path(), own);
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? Environment() : found[0];
  }

  TemporaryFolder folder_;
  Variable cache_;
  const std::string made_ = "cache/environments/torch-2.8-0123456789abcdef";
};

TEST_F(EnvironmentTest, TheCacheIsWhereTheVariablesSay) {
  EXPECT_EQ(cache_folder(), folder_ / "cache");
  const Variable none("RESUMECHECK_CACHE", "");
  const Variable caches("XDG_CACHE_HOME", "/caches");
  EXPECT_EQ(cache_folder(), "/caches/resumecheck");
  const Variable no_caches("XDG_CACHE_HOME", "");
  const Variable home("HOME", "/home/me");
  EXPECT_EQ(cache_folder(), "/home/me/.cache/resumecheck");
}

TEST_F(EnvironmentTest, TheRootIsAFolderWithScenarios) {
  {
    const Variable root("RESUMECHECK_ROOT", folder_.path().string());
    EXPECT_EQ(project_root(), folder_.path());
  }
  const Variable wrong("RESUMECHECK_ROOT", (folder_ / "tools").string());
  expect_error(Kind::harness, {"RESUMECHECK_ROOT="}, [] { project_root(); });
}

TEST_F(EnvironmentTest, OneThatIsNotMadeSaysHowToMakeIt) {
  const Environment environment = only();
  EXPECT_EQ(environment.name, "torch-2.8");
  EXPECT_TRUE(environment.python.empty());
  EXPECT_EQ(environment.missing_reason, "not made: tools/environments make torch-2.8");
  EXPECT_TRUE(environment.packages.empty()) << "pins are no versions";
  EXPECT_TRUE(environment.may_have("torchao"));
  EXPECT_FALSE(environment.may_have("transformer-engine"));
}

TEST_F(EnvironmentTest, AMadeOneIsReadByItsRecord) {
  make();
  const Environment environment = only();
  EXPECT_EQ(environment.python, folder_.path() / made_ / "bin/python");
  EXPECT_EQ(environment.packages.at("torch"), "2.8.0+cpu");
  EXPECT_TRUE(environment.missing_reason.empty());
  EXPECT_FALSE(environment.named_by_user);
  EXPECT_TRUE(only({"torch-2.8"}).named_by_user);
}

TEST_F(EnvironmentTest, AHalfMadeOrOutdatedOneDoesNotCount) {
  make();
  write("tools/locks/torch-2.8.lock", "another lock\n");
  EXPECT_THAT(only().missing_reason, HasSubstr("out of date"));
  write("tools/locks/torch-2.8.lock", "the lock\n");
  fs::remove(folder_.path() / made_ / "bin/python");
  EXPECT_THAT(only().missing_reason, HasSubstr("its Python is gone"));
  fs::remove(folder_.path() / made_ / "environment.json");
  EXPECT_THAT(only().missing_reason, HasSubstr("not made"));
}

TEST_F(EnvironmentTest, OthersWithALongerNameAreNotTakenForIt) {
  make();
  fs::rename(folder_.path() / made_,
             folder_.path() / "cache/environments/torch-2.8-nightly-0123456789abcdef");
  EXPECT_THAT(only().missing_reason, HasSubstr("not made"));
}

TEST_F(EnvironmentTest, ABrokenRecordIsAnErrorNamingIt) {
  for (const char* record :
       {"", "{}", "[]", R"({"packages": {"torch": 2}})", R"({"packages": 1})"}) {
    SCOPED_TRACE(record);
    make();
    write(made_ + "/environment.json", record);
    expect_error(Kind::harness, {"environment.json", "make torch-2.8"}, [&] { only(); });
  }
}

TEST_F(EnvironmentTest, APythonOfTheUsersOwnIsAsked) {
  const Environment mine = only({"mine=python3"});
  EXPECT_EQ(mine.name, "mine");
  EXPECT_TRUE(mine.named_by_user);
  EXPECT_EQ(mine.missing_reason, "");
  EXPECT_TRUE(mine.python.is_absolute());
  EXPECT_FALSE(only({"mine=python3"}).may_have("no-such-package"));
}

TEST_F(EnvironmentTest, APythonThatCannotAnswerIsKeptWithTheReason) {
  EXPECT_THAT(only({"mine=/no/such/python"}).missing_reason,
              HasSubstr("there is no program /no/such/python"));
  EXPECT_TRUE(only({"mine=/no/such/python"}).may_have("torchao"))
      << "else its cases would vanish instead of being errors";
  EXPECT_THAT(only({"mine=/bin/false"}).missing_reason, HasSubstr("cannot say what it has"));
}

TEST_F(EnvironmentTest, NamesMustBeKnownPlainAndDistinct) {
  expect_error(Kind::usage, {"--env torch-28", "did you mean 'torch-2.8'?"},
               [&] { only({"torch-28"}); });
  expect_error(Kind::usage, {"is no name"}, [&] { only({"a,b=/bin/true"}); });
  expect_error(Kind::usage, {"is no name"}, [&] { only({"=/bin/true"}); });
  expect_error(Kind::usage, {"given twice"}, [&] {
    find_environments(folder_.path(), {"a=/bin/false", "a=/bin/false"});
  });
}

TEST_F(EnvironmentTest, MayKeepMostOfTheQuickSuiteForTheNight) {
  EXPECT_FALSE(find_environments(folder_.path(), {}).front().quick);
  write("tools/environments.toml",
        "[environments.\"torch-2.8\"]\npackages = [\"torch==2.8.0\"]\nquick = [\"a/b\"]\n");
  EXPECT_EQ(find_environments(folder_.path(), {}).front().quick, std::vector<std::string>{"a/b"});
}

TEST_F(EnvironmentTest, AListWithMistakesNamesTheLine) {
  write("tools/environments.toml", "[environments.a]\nchecks = 1\n");
  expect_error(Kind::usage, {"environments.toml:1", "neither packages nor a python"},
               [&] { only(); });
  write("tools/environments.toml", "[environments.a]\npackages = [1]\n");
  expect_error(Kind::usage, {"environments.toml:2", "must be a text"}, [&] { only(); });
  fs::remove(folder_.path() / "tools/environments.toml");
  EXPECT_TRUE(find_environments(folder_.path(), {}).empty());
}

}  // namespace
}  // namespace resumecheck
