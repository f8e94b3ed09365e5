// A condition that is silently false marks nothing as broken and requires nothing, so a mistake in
// one must be an error when the scenario is read, not a difference in behaviour later.
#include "harness/scenario/expression.h"

#include <gtest/gtest.h>

#include "harness/state/expect_error.h"

namespace resumecheck {
namespace {

Facts facts() {
  return {{{"adapter", "torchao"}, {"device", "cpu"}, {"from", "dp2"}, {"onto", "dp1"}},
          {{"save.torch", "2.8.0+cpu"},
           {"load.torch", "2.15.0.dev20260101"},
           {"load.torchao", "0.12.0"},
           {"load.transformer-engine", "2.3"}}};
}

bool holds(std::string_view expression) {
  check_expression(expression, "a.toml:3");
  return evaluate(expression, facts(), "a.toml:3");
}

TEST(Expression, ComparesWords) {
  EXPECT_TRUE(holds("adapter == 'torchao'"));
  EXPECT_FALSE(holds("adapter != \"torchao\""));
  EXPECT_TRUE(holds("'dp1' == onto"));
  EXPECT_FALSE(holds("from == onto"));
  EXPECT_TRUE(holds("device == 'cpu' and from == 'dp2'"));
}

TEST(Expression, WordsNameWhatAVariantChooses) {
  Facts known = facts();
  known.words.insert({{"optimizer", "adamw4bit"},
                      {"param_dtype", "bf16"},
                      {"save_format", "full"},
                      {"profile", "torchao_eager"},
                      {"wrap", ""}});
  for (const char* expression :
       {"optimizer == 'adamw4bit'", "param_dtype == 'bf16'", "save_format != 'dcp'",
        "profile == 'torchao_eager'", "wrap == ''", "wrap != 'fsdp2'"}) {
    check_expression(expression, "a.toml:3");
    EXPECT_TRUE(evaluate(expression, known, "a.toml:3")) << expression;
  }
  const std::pair<const char*, const char*> wrong[] = {
      {"optimizer == 'adamw4bits'", "did you mean 'adamw4bit'?"},
      {"param_dtype == 'fp23'", "did you mean 'fp32'?"},
      {"save_format == 'dcp_flat'", "no save_format is called"},
      {"profile == 'eager'", "no profile is called"},
      {"wrap == 'fsdp'", "did you mean 'fsdp2'?"},
      {"optimizer < 'adamw4bit'", "words have no order"}};
  for (const auto& [expression, words] : wrong) {
    expect_error(Error::Kind::usage, {"a.toml:3", words},
                 [&] { check_expression(expression, "a.toml:3"); });
  }
}

TEST(Expression, ComparesVersionsNotTexts) {
  EXPECT_TRUE(holds("torchao < '0.17.0'"));
  EXPECT_TRUE(holds("torchao >= '0.9'"));
  EXPECT_TRUE(holds("load.torchao == '0.12'"));
  EXPECT_TRUE(holds("torch < '2.15.0'")) << "a dev release comes before its release";
  EXPECT_TRUE(holds("torch > '2.15.0.dev20251231'"));
  EXPECT_TRUE(holds("save.torch < load.torch"));
  EXPECT_TRUE(holds("'0.11' <= torchao"));
}

TEST(Expression, AVersionWithoutLocalLabelMeansEveryBuildOfIt) {
  EXPECT_TRUE(holds("save.torch == '2.8.0'"));
  EXPECT_TRUE(holds("save.torch <= '2.8.0'"));
  EXPECT_FALSE(holds("save.torch > '2.8.0'"));
  EXPECT_FALSE(holds("save.torch == '2.8.0+cu128'"));
  EXPECT_TRUE(holds("save.torch == '2.8.0+cpu'"));
}

TEST(Expression, AnAbsentPackageMakesItsComparisonFalse) {
  EXPECT_FALSE(holds("numpy == '1.0'"));
  EXPECT_FALSE(holds("numpy != '1.0'"));
  EXPECT_FALSE(holds("save.torchao < '99'")) << "only the loading side has it";
  EXPECT_TRUE(holds("not numpy == '1.0'"));
}

TEST(Expression, PackagesAreNamedInAnySpelling) {
  EXPECT_TRUE(holds("transformer_engine >= '2.3'"));
  EXPECT_TRUE(holds("Transformer-Engine >= '2.3'"));
}

TEST(Expression, AndBindsTighterThanOr) {
  EXPECT_TRUE(holds("device == 'cpu' or device == 'cuda' and device == 'cuda'"));
  EXPECT_FALSE(holds("(device == 'cpu' or device == 'cuda') and device == 'cuda'"));
  EXPECT_TRUE(holds("not device == 'cuda' and not not device == 'cpu'"));
  EXPECT_FALSE(holds("not (device == 'cpu' or torchao > '1')"));
}

TEST(Expression, NamesTheColumnOfAMistake) {
  struct Mistake {
    const char* expression;
    std::vector<std::string> words;
  };
  const Mistake refused[] = {{"", {"column 1", "empty"}},
                             {"adapter = 'torchao'", {"column 9", "=="}},
                             {"adapter == torchao", {"column 12", "no word"}},
                             {"adapter < 'torchao'", {"column 9", "no order"}},
                             {"adapter == 'torchoa'", {"column 12", "no adapter", "torchao"}},
                             {"adpter == 'torchao'", {"column 11", "did you mean 'adapter'"}},
                             {"frm == 'dp2'", {"did you mean 'from'"}},
                             {"onto == 'dp0'", {"column 9", "dp0"}},
                             {"device == 'gpu'", {"column 11", "cuda"}},
                             {"torch >= 2.8", {"column 10", "quotes"}},
                             {"torch >= 'two'", {"column 10", "no version"}},
                             {"torch", {"column 6", "compared with nothing"}},
                             {"torch >=", {"column 9"}},
                             {"torch >= '2.8", {"column 10", "not closed"}},
                             {"'1' == '2'", {"column 1", "two texts"}},
                             {"install.torch > '1'", {"column 1", "save.torch"}},
                             {"save. > '1'", {"names no package"}},
                             {"(torch > '1'", {"column 13", ") is missing"}},
                             {"torch > '1')", {"column 12", "does not continue"}},
                             {"torch > '1' torchao > '1'", {"column 13", "and, or"}},
                             {"torch > '1' and", {"column 16"}},
                             {"and torch > '1'", {"column 1"}},
                             {"torch > '1' & torchao > '1'", {"column 13", "unexpected"}}};
  for (const auto& [expression, words] : refused) {
    SCOPED_TRACE(expression);
    const auto check = [&, expression = expression] { check_expression(expression, "a.toml:3"); };
    expect_error(Error::Kind::usage, {"a.toml:3"}, check);
    for (const std::string& word : words) expect_error(Error::Kind::usage, {word}, check);
  }
}

TEST(Expression, DeepNestingIsRefusedNotFollowed) {
  const std::string deep(100'000, '(');
  expect_error(Error::Kind::usage, {"nested too deeply"}, [&] { check_expression(deep, "x"); });
  std::string negations;
  for (int i = 0; i < 10'001; ++i) negations += "not ";
  EXPECT_FALSE(holds(negations + "device == 'cpu'"));
}

}  // namespace
}  // namespace resumecheck
