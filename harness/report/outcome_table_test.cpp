// The table is read as a whole, so a case in the wrong cell, a failure under a harmless letter or
// an unexpected one without its mark would be believed. Each case must be one letter, in its row,
// column and place.
#include "harness/report/outcome_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "harness/report/example_result.h"
#include "harness/report/printable_text.h"

namespace resumecheck {
namespace {

using testing::HasSubstr;

CaseResult result(const std::string& variant, const std::string& environments,
                  const std::string& onto, Verdict verdict, const std::string& failed_at = "") {
  CaseResult result = result_of_verdict("low_bit/moments[x]", verdict);
  result.variant = variant;
  result.onto = onto;
  result.failed_at = failed_at;
  if (!environments.empty()) {
    const std::size_t sign = environments.find('>');
    result.adapter = "torchao";
    result.save_environment = EnvironmentRecord{environments.substr(0, sign), {}};
    result.load_environment = EnvironmentRecord{
        sign == environments.npos ? environments : environments.substr(sign + 1), {}};
  }
  return result;
}

std::string table_of(const std::vector<CaseResult>& results) {
  const std::string table = outcome_table(results, {});
  return table.substr(table.find("\n\n") + 2);  // behind the legend
}

TEST(OutcomeTable, IsARowAVariantAndALetterAMeshPair) {
  const std::string eight = "adamw8bit,bf16", four = "adamw4bit,bf16";
  EXPECT_EQ(
      table_of({result(eight, "", "dp2", Verdict::pass), result(eight, "", "dp1", Verdict::pass),
                result(eight, "torch-2.8", "dp2", Verdict::xfail, "step 4"),
                result(eight, "torch-2.8", "dp1", Verdict::fail, "load"),
                result(four, "torch-2.8", "dp2", Verdict::pass),
                result(four, "torch-2.11-torchao-0.16", "dp1", Verdict::skip),
                result(four, "torch-2.8>torch-2.15", "dp1", Verdict::pass)}),
      "low_bit/moments\n"
      "  meshes: dp2->dp2 dp2->dp1\n"
      "                                        torchao@      torchao@\n"
      "                             torchao@   torch-2.11-   torch-2.8>\n"
      "                  reference  torch-2.8  torchao-0.16  torch-2.15\n"
      "  adamw8bit,bf16  ..         RL*\n"
      "  adamw4bit,bf16             .           -             .\n");
}

TEST(OutcomeTable, ManyMeshesAreAGridWithALetterInItsRowAndColumn) {
  std::vector<CaseResult> results;
  const char* meshes[] = {"dp1", "dp2", "tp2", "dp2tp2", "pp2"};
  for (const char* from : meshes) {
    for (const char* onto : meshes) {
      const bool lost = std::string(from) == "dp2tp2" && std::string(onto) == "dp2";
      results.push_back(result("", "", onto, lost ? Verdict::fail : Verdict::pass, "after_load"));
      results.back().from = from;
    }
  }
  results.pop_back();
  results.push_back(result("", "", "dp8", Verdict::skip));
  results.back().from = "pp2";
  EXPECT_EQ(table_of(results),
            "low_bit/moments\n"
            "  reference\n"
            "     from    onto  1  2  3  4  5  6\n"
            "   1 dp1           .  .  .  .  .\n"
            "   2 dp2           .  .  .  .  .\n"
            "   3 tp2           .  .  .  .  .\n"
            "   4 dp2tp2        .  x* .  .  .\n"
            "   5 pp2           .  .  .  .     -\n"
            "   6 dp8\n");
  EXPECT_THAT(outcome_table(results, {true, false}), HasSubstr("dp2tp2"))
      << "a grid is shown without variants too";
}

TEST(OutcomeTable, ALetterSaysHowACaseEnded) {
  CaseResult silent = result("", "", "dp2", Verdict::fail, "step 5");
  silent.first_difference = Difference{};
  CaseResult accepted = result("", "", "dp2", Verdict::fail, "load");
  accepted.symptom = "was not refused: it loaded and trained to step 6";
  CaseResult otherwise = accepted;
  otherwise.symptom = "was not refused: load: out of memory";
  CaseResult changed = result("", "", "dp2", Verdict::fail, "load");
  changed.symptom = "the resume changed the checkpoint it loaded: x";
  const std::pair<CaseResult, char> ends[] = {
      {result("", "", "dp2", Verdict::pass), '.'},
      {result("", "", "dp2", Verdict::xpass), '.'},
      {result("", "", "dp2", Verdict::vacuous), '~'},
      {result("", "", "dp2", Verdict::skip), '-'},
      {result("", "", "dp2", Verdict::error), '!'},
      {result("", "", "dp2", Verdict::timeout), '!'},
      {result("", "", "dp2", Verdict::xfail, "save_run step 1"), 'F'},
      {result("", "", "dp2", Verdict::fail, "save"), 'S'},
      {result("", "", "dp2", Verdict::fail, "load"), 'L'},
      {result("", "", "dp2", Verdict::xfail, "step 4"), 'R'},
      {result("", "", "dp2", Verdict::fail, "after_load"), 'x'},
      {result("", "", "dp2", Verdict::fail, "golden"), 'x'},
      {silent, 'x'},
      {accepted, 'x'},
      {otherwise, 'L'},
      {changed, 'x'}};
  for (const auto& [each, letter] : ends) {
    EXPECT_EQ(outcome_letter(each), letter) << each.failed_at << " " << each.symptom;
    const std::string table = outcome_table({each}, {});
    EXPECT_THAT(table.substr(0, table.find("\n\n")), HasSubstr(std::string(1, letter) + " "));
  }
}

TEST(OutcomeTable, TheUnexpectedIsMarkedAndNothingElse) {
  EXPECT_THAT(table_of({result("a", "", "dp2", Verdict::xpass)}), HasSubstr("  a  .*\n"));
  EXPECT_THAT(table_of({result("a", "", "dp2", Verdict::vacuous)}), HasSubstr("  a  ~*\n"));
  EXPECT_THAT(table_of({result("a", "", "dp2", Verdict::xfail, "load")}), HasSubstr("  a  L\n"));
}

TEST(OutcomeTable, FitsATerminalHoweverMuchThereIs) {
  std::vector<CaseResult> results;
  for (int environment = 0; environment < 9; ++environment) {
    for (int mesh = 1; mesh <= 30; ++mesh) {
      results.push_back(result("adamw4bit,bf16,dcp_cpu_offload," + std::string(40, 'v'),
                               "torch-2." + std::to_string(environment) + "-torchao-0.16",
                               "dp" + std::to_string(mesh), Verdict::pass));
    }
  }
  const std::string table = outcome_table(results, {});
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(columns(line), 100U) << line;
  EXPECT_EQ(
      std::count(table.begin(), table.end(), '.') - static_cast<std::ptrdiff_t>(9 * 2 + 1 + 9 * 3),
      9 * 30)
      << "beside the dots of names and legend, one a case\n"
      << table;
}

// Two long variants that differ only at the end must not look alike.
TEST(OutcomeTable, AVariantIsCutOnlyWhereItsColumnNeedsThePlace) {
  const std::string variant = "adamw8bit,bf16,dcp_cpu_offload," + std::string(40, 'v') + ",end";
  const CaseResult one = result(variant, "torch-2.8", "dp2", Verdict::pass);
  EXPECT_NE(outcome_table({one}, {}).find(variant), std::string::npos) << outcome_table({one}, {});
}

TEST(OutcomeTable, AFileFromElsewhereCannotDriveTheTerminal) {
  CaseResult hostile = result("\x1b[2J", "torch\x1b[2J", "\x1b[2J", Verdict::pass);
  hostile.scenario = hostile.adapter = hostile.from = hostile.device = "\x1b[2J\n";
  const std::string table = outcome_table({hostile}, {});
  EXPECT_EQ(table.find('\x1b'), table.npos) << table;
}

TEST(OutcomeTable, ScenariosWithoutVariantsCanBeLeftOut) {
  const CaseResult plain = result("", "torch-2.8", "dp2", Verdict::pass);
  EXPECT_EQ(outcome_table({plain}, {true, false}), "");
  EXPECT_THAT(outcome_table({plain}, {}), HasSubstr("  -"));
  EXPECT_EQ(outcome_table({}, {}), "");
}

}  // namespace
}  // namespace resumecheck
