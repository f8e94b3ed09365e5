#include "harness/report/committed_sources.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "harness/state/expect_error.h"
#include "harness/state/file.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

class CommittedSources : public testing::Test {
 protected:
  CommittedSources() {
    for (const char* folder : {"kernels", "harness", "cmake", "scenarios"}) {
      std::filesystem::create_directories(root_ / folder);
    }
    write_file(root_ / "kernels" / "step.cpp", std::string_view("int a;"));
    for (const char* folder : {"harness", "cmake"}) {
      write_file(root_ / folder / "x", std::string_view("x"));
    }
    for (const char* file : {"CMakeLists.txt", "CMakePresets.json"}) {
      write_file(root_ / file, std::string_view("x"));
    }
  }
  void git(const std::string& arguments) {
    const std::string command = "cd '" + root_.string() +
                                "' && git -c user.name=a -c user.email=a@b " + arguments +
                                " >git.log 2>&1";
    ASSERT_EQ(std::system(command.c_str()), 0) << command << read_file(root_ / "git.log");
  }
  void commit_all() {
    git("init -q");
    git("add kernels harness cmake CMakeLists.txt CMakePresets.json");
    git("commit -q -m all");
  }
  void refused(const std::string& file, const std::string& words) {
    expect_error(Error::Kind::usage, {file, words, "commit the arithmetic first"},
                 [&] { require_committed_sources(root_); });
  }

  TemporaryFolder folder_;
  std::filesystem::path root_ = folder_.path();
};

TEST_F(CommittedSources, AreNotAskedForOutsideACheckout) { require_committed_sources(root_); }

TEST_F(CommittedSources, MayHaveNewScenariosBesideThem) {
  commit_all();
  write_file(root_ / "scenarios" / "new.toml", std::string_view("x"));
  require_committed_sources(root_);
}

TEST_F(CommittedSources, AChangeIsRefusedByItsFile) {
  commit_all();
  write_file(root_ / "kernels" / "step.cpp", std::string_view("int b;"));
  refused("kernels/step.cpp", "has changes that are not committed");
  git("add kernels");
  refused("kernels/step.cpp", "has changes that are not committed");
}

TEST_F(CommittedSources, ANewFileIsRefusedByItsName) {
  commit_all();
  write_file(root_ / "harness" / "new.cpp", std::string_view("int b;"));
  refused("harness/new.cpp", "is not committed");
}

}  // namespace
}  // namespace resumecheck
