// A case's name is what people paste, filter by and find in CI, so it must be the same everywhere;
// and expansion must never lose a case without a word, whatever environments there are.
#include "harness/scenario/case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "harness/state/expect_error.h"
#include "harness/state/file.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

using Kind = Error::Kind;
using testing::ElementsAre;
using testing::HasSubstr;

Scenario scenario(const std::string& name, std::vector<std::string> adapters) {
  Scenario scenario;
  scenario.name = name;
  scenario.carrier = "toml";
  scenario.adapters = std::move(adapters);
  scenario.labels = {"quick"};
  scenario.settings.save_format.clear();
  scenario.resumes = {{Mesh::parse("dp2"), {Mesh::parse("dp1"), Mesh::parse("dp2")}, "", "", 0}};
  return scenario;
}

Environment environment(const std::string& name, const std::string& torchao) {
  Environment environment;
  environment.name = name;
  environment.python = "/bin/true";
  environment.packages = {{"torch", "2.8.0"}};
  if (!torchao.empty()) environment.packages["torchao"] = torchao;
  return environment;
}

std::vector<std::string> names(const std::vector<Case>& cases) {
  std::vector<std::string> names;
  for (const Case& c : cases) names.push_back(c.name());
  return names;
}

TEST(Case, NamesAreThoseOfTheDesign) {
  const auto cases = expand({scenario("adamw8bit/moments", {"reference", "torchao"})},
                            {environment("torch-2.8", "0.12.0")});
  EXPECT_THAT(names(cases), ElementsAre("adamw8bit/moments[reference,dp2->dp1]",
                                        "adamw8bit/moments[reference,dp2->dp2]",
                                        "adamw8bit/moments[torchao@torch-2.8,dp2->dp1]",
                                        "adamw8bit/moments[torchao@torch-2.8,dp2->dp2]"));
  EXPECT_EQ(cases[0].gtest_suite(), "adamw8bit");
  EXPECT_EQ(cases[0].gtest_test(), "moments[reference,dp2_>dp1]");
  EXPECT_EQ(cases[0].gtest_name(), "adamw8bit.moments[reference,dp2_>dp1]");
  EXPECT_TRUE(cases[0].native());
  EXPECT_FALSE(cases[2].native());
  EXPECT_EQ(cases[0].settings().save_format, "native");
  EXPECT_EQ(cases[2].settings().save_format, "dcp");
}

TEST(Case, SlugsAreSafeAndDistinct) {
  const auto cases = expand({scenario("a/B.x", {"reference"}), scenario("a/b.x", {"reference"}),
                             scenario("a/" + std::string(300, 'y'), {"reference"})},
                            {});
  std::set<std::string> slugs;
  for (const Case& c : cases) {
    EXPECT_THAT(c.slug(), testing::MatchesRegex("[a-z0-9._-]+-[0-9a-f]{8}"));
    EXPECT_LT(c.slug().size(), 120U);
    slugs.insert(c.slug());
  }
  EXPECT_EQ(slugs.size(), cases.size());
}

TEST(Case, SavesAreSharedExactlyWhereTheyAreTheSame) {
  const auto cases = expand({scenario("a/x", {"reference", "torchao"})},
                            {environment("one", "1"), environment("two", "2")});
  ASSERT_EQ(cases.size(), 6U);
  EXPECT_EQ(cases[0].save_key(), cases[1].save_key()) << "the resume's mesh does not matter";
  EXPECT_NE(cases[0].save_key(), cases[2].save_key());
  EXPECT_NE(cases[2].save_key(), cases[4].save_key()) << "another environment";
  Case on_gpu = cases[0];
  on_gpu.device = "cuda";
  EXPECT_NE(on_gpu.save_key(), cases[0].save_key());
}

TEST(Case, TwoEnvironmentsAreSavedUnderOneAndLoadedUnderTheOther) {
  Scenario across = scenario("a/x", {"reference", "torchao"});
  across.resumes[0].save_env = "one";
  across.resumes[0].load_env = "two";
  const auto cases = expand({across}, {environment("one", "1"), environment("two", "2")});
  EXPECT_THAT(names(cases),
              ElementsAre("a/x[reference,dp2->dp1]", "a/x[reference,dp2->dp2]",
                          "a/x[torchao@one>two,dp2->dp1]", "a/x[torchao@one>two,dp2->dp2]"));
  EXPECT_EQ(cases[2].facts().versions.at("save.torchao"), "1");
  EXPECT_EQ(cases[2].facts().versions.at("load.torchao"), "2");
  const auto lost = expand({across}, {environment("one", "1")});
  ASSERT_EQ(lost.size(), 4U);
  EXPECT_THAT(why_not_runnable(lost[2]).value_or(""), HasSubstr("has no environment two"));
}

TEST(Case, AStarStandsForEveryEnvironmentThatHasThePackage) {
  Scenario across = scenario("a/x", {"torchao"});
  across.resumes = {{Mesh::parse("dp2"), {Mesh::parse("dp1")}, "*", "*", 0}};
  const std::vector<Environment> three = {environment("one", "1"), environment("te", ""),
                                          environment("two", "2")};
  EXPECT_THAT(names(expand({across}, three)),
              ElementsAre("a/x[torchao@one,dp2->dp1]", "a/x[torchao@one>two,dp2->dp1]",
                          "a/x[torchao@two>one,dp2->dp1]", "a/x[torchao@two,dp2->dp1]"));
  across.resumes[0].load_env = "two";
  EXPECT_THAT(names(expand({across}, three)),
              ElementsAre("a/x[torchao@one>two,dp2->dp1]", "a/x[torchao@two,dp2->dp1]"));
  Environment own = environment("mine", "3");
  own.named_by_user = true;
  EXPECT_TRUE(expand({across}, {own}).empty()) << "--env leaves the other side out";
  across.resumes[0].load_env = "*";
  EXPECT_THAT(names(expand({across}, {own})), ElementsAre("a/x[torchao@mine,dp2->dp1]"));
  const auto none = expand({across}, {environment("te", "")});
  ASSERT_EQ(none.size(), 1U);
  EXPECT_THAT(why_not_runnable(none[0]).value_or(""), HasSubstr("has torchao"));
}

TEST(Case, CompiledStepsNeedACompiler) {
  Scenario compiled = scenario("a/x", {"torchao", "reference"});
  compiled.settings.optimizer.profile_after_save = "torchao_compiled";
  const auto cases = expand({compiled}, {environment("one", "1")});
  const std::string path = getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  unsetenv("CXX");
  EXPECT_THAT(why_not_runnable(cases[0], "/bin/sh").value_or(""), HasSubstr("apt install g++"));
  EXPECT_EQ(why_not_runnable(cases[2], "/bin/sh"), std::nullopt)
      << "the reference compiles nothing";
  setenv("PATH", path.c_str(), 1);
}

TEST(Case, NoCaseVanishesForWantOfAnEnvironment) {
  const Scenario only = scenario("a/x", {"torchao"});
  const auto none = expand({only}, {});
  ASSERT_EQ(none.size(), 2U);
  EXPECT_THAT(why_not_runnable(none[0]).value_or(""), HasSubstr("has torchao"));
  const auto other = expand({only}, {environment("te", "")});
  ASSERT_EQ(other.size(), 2U) << "an environment of other frameworks adds no case of its own";
  Environment own = environment("mine", "");
  own.named_by_user = true;
  const auto named = expand({only}, {own});
  ASSERT_EQ(named.size(), 2U);
  EXPECT_EQ(named[0].name(), "a/x[torchao@mine,dp2->dp1]");
  EXPECT_THAT(why_not_runnable(named[0]).value_or(""), HasSubstr("mine has no package torchao"));
}

TEST(Case, AnEnvironmentThatIsNotMadeIsListedByItsPins) {
  Environment missing;
  missing.name = "torch-9";
  missing.pins = {{"torchao", "9.0"}};
  missing.missing_reason = "not made: tools/environments make torch-9";
  const auto cases = expand({scenario("a/x", {"torchao"})}, {missing});
  ASSERT_EQ(cases.size(), 2U);
  EXPECT_EQ(why_not_runnable(cases[0]), missing.missing_reason);
  EXPECT_TRUE(cases[0].facts().versions.empty()) << "a pin is no installed version";
}

TEST(Case, AdaptersWithoutAPackageRunUnderTheSystemsPython) {
  const auto cases = expand({scenario("a/x", {"plain_python"})}, {environment("one", "1")});
  ASSERT_EQ(cases.size(), 2U);
  EXPECT_EQ(cases[0].name(), "a/x[plain_python@system,dp2->dp1]");
}

TEST(Case, CodeThatIsLinkedNowhereIsAnError) {
  Scenario native = scenario("a/x", {"reference"});
  native.carrier = "cpp";
  native.file = "/s/a/x.cpp";
  expect_error(Kind::usage, {"/s/a/x.cpp", "linked into no program"},
               [&] { expand({native}, {}); });
}

TEST(Case, TheFirstMatchingMarkCounts) {
  Scenario marked = scenario("a/x", {"reference", "torchao"});
  marked.known_broken = {{"adapter == 'torchao' and torchao < '1'", "old", "o/r#1", "f:1"},
                         {"adapter == 'torchao'", "new", "o/r#2", "f:2"}};
  const auto cases = expand({marked}, {environment("one", "0.12"), environment("two", "2")});
  EXPECT_EQ(known_broken(cases[0]), nullptr);
  ASSERT_NE(known_broken(cases[2]), nullptr);
  EXPECT_EQ(known_broken(cases[2])->symptom, "old");
  EXPECT_EQ(known_broken(cases[4])->symptom, "new");
}

TEST(Case, RequirementsThatAreNotMetAreReasons) {
  Scenario asks = scenario("a/x", {"torchao"});
  asks.requirements = {"torchao >= '1.0'"};
  const auto cases = expand({asks}, {environment("one", "0.12"), environment("two", "2")});
  EXPECT_EQ(why_not_runnable(cases[0], "sh"), "needs torchao >= '1.0'");
  EXPECT_EQ(why_not_runnable(cases[2], "sh"), std::nullopt);
  EXPECT_THAT(why_not_runnable(cases[2], "no-such-launcher").value_or(""),
              HasSubstr("no no-such-launcher on PATH"));
}

class SelectionTest : public testing::Test {
 protected:
  SelectionTest() {
    Scenario nightly = scenario("mesh/shrinks", {"reference"});
    nightly.labels = {"nightly"};
    cases_ = expand({scenario("adamw8bit/moments", {"reference", "torchao"}), nightly},
                    {environment("torch-2.8", "0.12.0")});
  }
  std::vector<std::string> selected(const Selection& selection) {
    return names(select(cases_, selection));
  }
  std::vector<Case> cases_;
};

TEST_F(SelectionTest, PatternsMatchNamesWithOrWithoutBrackets) {
  EXPECT_EQ(selected({}).size(), 6U);
  EXPECT_EQ(selected({{"adamw8bit/*"}, {}, {}}).size(), 4U);
  EXPECT_EQ(selected({{"adamw8bit/moments"}, {}, {}}).size(), 4U);
  EXPECT_EQ(selected({{"adamw8bit/moment?"}, {}, {}}).size(), 4U);
  EXPECT_EQ(selected({{"*[reference,*]"}, {}, {}}).size(), 4U);
  EXPECT_THAT(selected({{"mesh/shrinks[reference,dp2->dp1]"}, {}, {}}),
              ElementsAre("mesh/shrinks[reference,dp2->dp1]"));
  EXPECT_EQ(selected({{"*dp1]", "mesh/*"}, {}, {}}).size(), 4U) << "each case once";
}

TEST_F(SelectionTest, LabelsAndAdaptersNarrowIt) {
  EXPECT_EQ(selected({{}, {"nightly"}, {}}).size(), 2U);
  EXPECT_EQ(selected({{}, {"nightly", "quick"}, {}}).size(), 6U);
  EXPECT_EQ(selected({{}, {}, {"torchao"}}).size(), 2U);
  EXPECT_EQ(selected({{"*"}, {"quick"}, {"reference"}}).size(), 2U);
}

TEST_F(SelectionTest, AnEnvironmentMayLeaveTheQuickSuiteToTheNight) {
  const auto torchao = std::find_if(cases_.begin(), cases_.end(),
                                    [](const Case& c) { return c.adapter == "torchao"; });
  ASSERT_NE(torchao, cases_.end());
  torchao->load_env->quick = {torchao->scenario->name};
  EXPECT_EQ(torchao->labels(), std::vector<std::string>{"quick"});
  torchao->load_env->quick = {"another/scenario"};
  EXPECT_EQ(torchao->labels(), std::vector<std::string>{"nightly"});
  EXPECT_EQ(selected({{}, {"quick"}, {"torchao"}}).size(), 1U);
  EXPECT_EQ(selected({{}, {"nightly"}, {"torchao"}}).size(), 1U);
}

TEST_F(SelectionTest, WhatMatchesNothingIsAMistake) {
  expect_error(Kind::usage, {"'adamw8bit/momnets'", "did you mean 'adamw8bit/moments'?"}, [&] {
    selected({{"adamw8bit/momnets"}, {}, {}});
  });
  expect_error(Kind::usage, {"did you mean 'mesh/shrinks[reference,dp2->dp1]'?"}, [&] {
    selected({{"mesh/shrinks[reference,dp2->dp8]"}, {}, {}});
  });
  expect_error(Kind::usage, {"no case matches 'nothing'"}, [&] {
    selected({{"adamw8bit/*", "nothing"}, {}, {}});
  });
  expect_error(Kind::usage, {"--label", "did you mean 'quick'?"}, [&] {
    selected({{}, {"quik"}, {}});
  });
  expect_error(Kind::usage, {"did you mean 'torchao'?"}, [&] { selected({{}, {}, {"torch"}}); });
  expect_error(Kind::usage, {"no case matches all"}, [&] {
    selected({{"mesh/*"}, {"quick"}, {}});
  });
}

TEST_F(SelectionTest, APatternOfStarsIsNotExponential) {
  std::string stars;
  for (int i = 0; i < 200; ++i) stars += "*a";
  EXPECT_FALSE(matches(cases_[0], {{stars}, {}, {}}));
}

const std::string kTwoMeshes =
    "summary = \"s\"\nadapters = [\"reference\"]\n[model]\na = [4]\n"
    "[[resume]]\nfrom = \"dp2\"\nonto = [\"dp1\", \"dp2\"]\n";

TEST(FindCases, TwoFilesOfOneNameAreAMistake) {
  const TemporaryFolder root;
  std::vector<std::string> files;
  for (const char* folder : {"one", "two"}) {
    std::filesystem::create_directories(root.path() / folder);
    files.push_back((root.path() / folder / "mine.toml").string());
    write_file(files.back(), kTwoMeshes);
  }
  EXPECT_EQ(find_cases(root.path(), {}, {{files[0], files[0]}, {}, {}}).size(), 2U);
  EXPECT_THROW(find_cases(root.path(), {}, {files, {}, {}}), Error) << "the second would not run";
}

TEST(FindCases, TakesPathsOfScenarioFiles) {
  TemporaryFolder root;
  std::filesystem::create_directories(root.path() / "scenarios" / "a");
  write_file(root / "scenarios/a/inside.toml", kTwoMeshes);
  write_file(root / "mine.toml", kTwoMeshes);
  const std::string mine = (root / "mine.toml").string();
  EXPECT_THAT(names(find_cases(root.path(), {}, {{mine}, {}, {}})),
              ElementsAre("mine[reference,dp2->dp1]", "mine[reference,dp2->dp2]"));
  EXPECT_THAT(
      names(find_cases(root.path(), {}, {{mine + "[reference,dp2->dp1]", "a/*dp2]"}, {}, {}})),
      ElementsAre("mine[reference,dp2->dp1]", "a/inside[reference,dp2->dp2]"));
  EXPECT_EQ(find_cases(root.path(), {}, {}).size(), 2U);
  expect_error(Kind::usage, {"none.toml"}, [&] {
    find_cases(root.path(), {}, {{"none.toml"}, {}, {}});
  });
}

TEST(FindCases, AnEnvironmentThatNoListNamesIsAMistakeAndNoSkip) {
  const TemporaryFolder root;
  const std::string file = (root / "mine.toml").string();
  std::string text = kTwoMeshes;
  text.replace(text.find("\"reference\""), 11, "\"torchao\"");
  write_file(file, text + "save_env = \"torch-2.9\"\nload_env = \"torch-2.8\"\n");
  Environment known;
  known.name = "torch-2.8";
  expect_error(Kind::usage, {"mine.toml", "'torch-2.9'", "did you mean 'torch-2.8'?"}, [&] {
    find_cases(root.path(), {known}, {{file}, {}, {}});
  });
  known.named_by_user = true;
  expect_error(Kind::usage, {"no case matches"}, [&] {
    find_cases(root.path(), {known}, {{file}, {}, {}});
  });
}

}  // namespace
}  // namespace resumecheck
