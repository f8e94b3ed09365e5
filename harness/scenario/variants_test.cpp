// A combination that is dropped, doubled or named like another is a test that silently never runs,
// so every list must give all its combinations, in order, each under a name of its own; and
// whatever could not be told apart in a name is refused where it is written.
#include "harness/scenario/variants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/scenario/case.h"
#include "harness/state/expect_error.h"
#include "harness/state/file.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

using testing::ElementsAre;

constexpr const char* head = R"(summary = "a property"
adapters = ["torchao"]
)";
constexpr const char* tail = R"([model]
embed = [512, 256]
[[resume]]
from = "dp2"
onto = [)";

class VariantsTest : public testing::Test {
 protected:
  std::vector<Scenario> read(const std::string& vary, const std::string& more = "",
                             const std::string& top = "",
                             const std::string& onto = "dp2\", \"dp1") {
    std::filesystem::create_directories(folder_ / "low_bit");
    write_file(folder_ / "low_bit/x.toml",
               head + top + "[vary]\n" + vary + more + tail + "\"" + onto + "\"]\n");
    return read_scenario(folder_ / "low_bit/x.toml", folder_.path());
  }
  void refused(const std::string& vary, const std::string& place, const std::string& words) {
    SCOPED_TRACE(vary);
    expect_error(Error::Kind::usage, {"low_bit/x.toml" + place, words}, [&] { read(vary); });
  }
  TemporaryFolder folder_;
};

std::vector<std::string> texts(const std::vector<Scenario>& scenarios) {
  std::vector<std::string> texts;
  for (const Scenario& scenario : scenarios) texts.push_back(scenario.variant);
  return texts;
}

TEST_F(VariantsTest, EveryCombinationOnceInTheOrderWritten) {
  const auto scenarios = read(R"("optimizer.name" = ["adamw4bit", "adamw8bit"]
param_dtype = ["fp32", "bf16"]
"run.save_format" = ["dcp", "full"]
)");
  EXPECT_THAT(texts(scenarios),
              ElementsAre("adamw4bit,fp32,dcp", "adamw4bit,fp32,full", "adamw4bit,bf16,dcp",
                          "adamw4bit,bf16,full", "adamw8bit,fp32,dcp", "adamw8bit,fp32,full",
                          "adamw8bit,bf16,dcp", "adamw8bit,bf16,full"));
  EXPECT_EQ(scenarios[3].name, "low_bit/x");
  EXPECT_EQ(scenarios[3].settings.optimizer.name, "adamw4bit");
  EXPECT_EQ(scenarios[3].settings.optimizer.block, 128) << "defaults are of the combination";
  EXPECT_EQ(scenarios[3].settings.param_dtype, "bf16");
  EXPECT_EQ(scenarios[3].settings.save_format, "full");
  EXPECT_THAT(scenarios[3].choices, ElementsAre(testing::Pair("optimizer.name", "adamw4bit"),
                                                testing::Pair("param_dtype", "bf16"),
                                                testing::Pair("run.save_format", "full")));
}

TEST_F(VariantsTest, ValuesOfEveryKindAreChosenAndNamed) {
  const auto scenarios =
      read(R"("optimizer.lr" = [1e-3, 1]
"optimizer.stochastic_rounding" = [false, true]
seed = [7, 8]
"adapter_options.torchao.wrap" = ["fsdp2", "fsdp2_matrices"]
)",
           "[optimizer]\nprofile = \"torchao_eager\"\n", "param_dtype = \"bf16\"\n", "dp2");
  ASSERT_EQ(scenarios.size(), 16U);
  EXPECT_EQ(scenarios[0].variant, "0.001,false,7,fsdp2");
  EXPECT_EQ(scenarios[15].variant, "1,true,8,fsdp2_matrices");
  EXPECT_EQ(scenarios[15].settings.optimizer.lr, 1.0);
  EXPECT_TRUE(scenarios[15].settings.optimizer.stochastic_rounding);
  EXPECT_EQ(scenarios[15].settings.seed, 8U);
  EXPECT_EQ(scenarios[15].adapter_options.at("torchao").at("wrap"),
            Value(std::string("fsdp2_matrices")));
}

TEST_F(VariantsTest, WhatCannotVaryIsRefusedWhereItStands) {
  const std::pair<const char*, const char*> wrong[] = {
      {"\"optimizer.nmae\" = [\"a\", \"b\"]\n", "did you mean 'optimizer.name'?"},
      {"summary = [\"a\", \"b\"]\n", "'summary' is no key with a single value"},
      {"optimizer.name = [\"adamw\", \"adamw8bit\"]\n", "quote the whole path: \"optimizer.name\""},
      {"adapter_options.torchao.wrap = [\"none\", \"fsdp2\"]\n",
       "quote the whole path: \"adapter_options.torchao.wrap\" = [...]"},
      {"seed = []\n", "'seed' has no value"},
      {"seed = [1]\n", "'seed' has one value, so it varies nothing"},
      {"seed = 1\n", "'seed' must be a list, not an integer"},
      {"\"adapter_options.torchao.wrp\" = [\"a\", \"b\"]\n",
       "did you mean 'adapter_options.torchao.wrap'?"}};
  for (const auto& [vary, words] : wrong) refused(vary, ":4:1", words);
  refused("", ":3:", "[vary] varies nothing");
  refused("seed = [1, 1]\n", ":4:12", "'1' stands twice in 'seed'");
  refused("seed = [1, [2]]\n", ":4:12", "varies over a list; give single values");
  refused("seed = [1, {a = 2}]\n", ":4:12", "varies over a table");
  refused("seed = [1, 2020-01-01]\n", ":4:12", "varies over a date");
  refused("param_dtype = [\"fp32\", \"bf16,x\"]\n", ":4:24", "use letters, digits, _ - and .");
  refused("param_dtype = [\"fp32\", \"b]f\"]\n", ":4:24", "cannot hold it");
  refused("param_dtype = [\"fp32\", \"\"]\n", ":4:24", "is empty");
  refused(
      "seed = [1,2,3,4,5,6,7,8]\n\"run.save_after\" = [1,2,3]\n"
      "\"run.train_until\" = [4,5,6]\n",
      ":6:1", "more than 64 combinations");
  expect_error(Error::Kind::usage, {":5:1", "'seed' varies, and line 3 gives it one value"},
               [&] { read("seed = [1, 2]\n", "", "seed = 3\n"); });
}

TEST_F(VariantsTest, AMistakeInSomeCombinationsSaysInWhich) {
  refused("param_dtype = [\"fp32\", \"bf61\"]\n", ":4:24",
          "'bf61' is no param_dtype (as bf61); did you mean 'bf16'?");
  expect_error(Error::Kind::usage, {":3:1", "unknown key 'sed'; did you mean 'seed'?"},
               [&] { read("seed = [1, 2]\n", "", "sed = 3\n"); });
  refused("\"run.save_format\" = [\"dcp\", \"torch_save\"]\n", ":9:16", "(as torch_save)");
}

TEST_F(VariantsTest, CasesAreNamedSavedAndFoundByTheirVariant) {
  read("param_dtype = [\"fp32\", \"bf16\"]\n\"run.save_format\" = [\"dcp\", \"full\"]\n");
  Environment environment;
  environment.name = "one";
  environment.python = "/bin/true";
  environment.packages = {{"torchao", "1"}};
  const auto cases = expand(read_scenarios(folder_.path()), {environment});
  ASSERT_EQ(cases.size(), 8U);
  EXPECT_EQ(cases[0].name(), "low_bit/x[torchao@one,fp32,dcp,dp2->dp2]");
  EXPECT_EQ(cases[7].name(), "low_bit/x[torchao@one,bf16,full,dp2->dp1]");
  EXPECT_EQ(cases[7].gtest_name(), "low_bit.x[torchao@one,bf16,full,dp2_>dp1]");
  EXPECT_EQ(cases[7].facts().words.at("save_format"), "full");
  EXPECT_EQ(cases[7].facts().words.at("wrap"), "fsdp2");
  EXPECT_EQ(cases[0].save_key(), cases[1].save_key());
  EXPECT_NE(cases[0].save_key(), cases[2].save_key()) << "another variant saves otherwise";
  EXPECT_EQ(select(cases, {{"low_bit/x"}, {}, {}}).size(), 8U);
  EXPECT_EQ(select(cases, {{"low_bit/x[*,bf16,*"}, {}, {}}).size(), 4U);
  EXPECT_EQ(select(cases, {{cases[7].name()}, {}, {}}).size(), 1U);
}

TEST_F(VariantsTest, AGoldenBelongsToWhatDecidesItsBits) {
  const auto scenarios = read(R"("run.save_format" = ["dcp", "full"]
param_dtype = ["fp32", "bf16"]
"optimizer.name" = ["adamw4bit", "adamw8bit"]
"adapter_options.torchao.wrap" = ["fsdp2", "fsdp2_matrices"]
)");
  EXPECT_EQ(golden_variant(scenarios[0]), "fp32-adamw4bit");
  EXPECT_EQ(golden_name(scenarios[0]), "low_bit/x.fp32-adamw4bit");
  std::set<std::string> names;
  for (const Scenario& scenario : scenarios) names.insert(golden_name(scenario));
  EXPECT_EQ(names.size(), 4U);
  const auto formats = read("\"run.save_format\" = [\"dcp\", \"full\"]\n");
  EXPECT_EQ(golden_name(formats[0]), "low_bit/x") << "no choice decides a bit";
}

}  // namespace
}  // namespace resumecheck
