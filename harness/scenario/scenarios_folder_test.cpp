// The scenarios that are shipped: all are read, each has a name of its own, says where it comes
// from or what it proves, and expands to cases with distinct names in every form they are used in.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "harness/scenario/case.h"
#include "harness/state/file.h"

namespace resumecheck {
namespace {

const std::filesystem::path root = RESUMECHECK_SOURCE_DIR;

TEST(ScenariosFolder, EveryFileIsAScenarioWithANameOfItsOwn) {
  const auto scenarios = read_scenarios(root / "scenarios");
  EXPECT_FALSE(scenarios.empty());
  std::set<std::string> names;
  for (const Scenario& scenario : scenarios) {
    EXPECT_TRUE(names.insert(scenario.name + "," + scenario.variant).second) << scenario.name;
    EXPECT_FALSE(scenario.labels.empty()) << scenario.name << ": no run would ever include it";
    EXPECT_NE(scenario.name.find('/'), std::string::npos)
        << scenario.name << ": put it in a subject";
  }
}

TEST(ScenariosFolder, EveryFileOpensByTellingWhySomeoneGetsItWrong) {
  for (const Scenario& scenario : read_scenarios(root / "scenarios")) {
    const std::string text = read_file(scenario.file);
    const std::string mark = scenario.carrier == "cpp" ? "// " : "# ";
    EXPECT_EQ(text.rfind(mark, 0), 0U) << scenario.name << " does not open with a comment";
    EXPECT_NE(text.rfind(mark + "///", 0), 0U) << scenario.name << " opens with its block";
  }
}

TEST(ScenariosFolder, CasesHaveDistinctNamesInEveryForm) {
  Environment one, two;
  one.name = "one";
  two.name = "two";
  const auto cases = expand(read_scenarios(root / "scenarios"), {one, two});
  std::set<std::string> names, tests, slugs;
  for (const Case& c : cases) {
    EXPECT_TRUE(names.insert(c.name()).second) << c.name();
    EXPECT_TRUE(tests.insert(c.gtest_name()).second) << c.gtest_name();
    EXPECT_TRUE(slugs.insert(c.slug()).second) << c.slug();
  }
}

}  // namespace
}  // namespace resumecheck
