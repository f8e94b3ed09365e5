// The table is what most people read of a run: its numbers must add up to the cases, nothing
// unexpected may be missing by name, and it must fit a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "harness/report/example_result.h"
#include "harness/report/printable_text.h"
#include "harness/report/report.h"

namespace resumecheck {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<CaseResult> of_every_verdict() {
  std::vector<CaseResult> results;
  for (const Verdict verdict : {Verdict::pass, Verdict::fail, Verdict::vacuous, Verdict::xfail,
                                Verdict::xpass, Verdict::skip, Verdict::error, Verdict::timeout}) {
    for (int i = 0; i <= static_cast<int>(verdict); ++i) {
      const std::string number = std::to_string(static_cast<int>(verdict) * 10 + i);
      results.push_back(result_of_verdict("a/b" + number + "[x]", verdict));
    }
  }
  return results;
}

TEST(SummaryTable, IsGroupedByScenarioAndAdapter) {
  CaseResult reference = result_of_verdict("a/moments[reference,dp2->dp2]", Verdict::pass);
  CaseResult again = result_of_verdict("a/moments[reference,dp2->dp1]", Verdict::pass);
  CaseResult torchao = result_of_verdict("a/moments[torchao@torch-2.8,dp2->dp1]", Verdict::xfail);
  torchao.adapter = "torchao";
  torchao.save_environment = torchao.load_environment = EnvironmentRecord{"torch-2.8", {}};
  torchao.known_broken = "pytorch/ao#3314";
  torchao.failed_at = "step 4";
  torchao.symptom = "expected dtype";
  torchao.seconds = 2.5;
  EXPECT_EQ(summary_table({reference, again, torchao}, false),
            "                                            PASS  FAIL  XFAIL  seconds\n"
            "a/moments\n"
            "  reference                                    2                   2.0\n"
            "  torchao@torch-2.8                                         1      2.5\n"
            "    XFAIL: pytorch/ao#3314: step 4: expected dtype\n"
            "total                                          2            1      4.5\n"
            "3 cases = 2 PASS + 1 XFAIL\n");
}

TEST(SummaryTable, EveryCaseIsCountedOnce) {
  const auto results = of_every_verdict();
  ASSERT_EQ(results.size(), 36U);
  EXPECT_THAT(summary_table(results, false),
              HasSubstr("36 cases = 1 PASS + 2 FAIL + 3 VACUOUS + 4 XFAIL + 5 XPASS + 6 SKIP + 7 "
                        "ERROR + 8 TIMEOUT\n"));
}

TEST(SummaryTable, NamesWhatIsUnexpectedOrUnfinished) {
  const auto results = of_every_verdict();
  const std::string table = summary_table(results, false);
  for (const CaseResult& result : results) {
    const bool named = unexpected(result.verdict) || result.verdict == Verdict::error ||
                       result.verdict == Verdict::timeout;
    const std::string line = result.name + "\n";
    EXPECT_EQ(table.find(line) != table.npos, named) << result.name;
  }
}

TEST(SummaryTable, SkipsAreToldWithTheirReasonsOnce) {
  CaseResult one = result_of_verdict("a/b[x,dp1->dp1]", Verdict::skip);
  one.reason = "not made: tools/environments make torch-2.8";
  CaseResult two = one;
  const std::string table = summary_table({one, two}, false);
  const std::size_t first = table.find(one.reason);
  ASSERT_NE(first, table.npos);
  EXPECT_EQ(table.find(one.reason, first + 1), table.npos);
}

TEST(SummaryTable, StaysShortHoweverManyReasonsThereAre) {
  std::vector<CaseResult> results;
  for (int i = 0; i < 9; ++i) {
    results.push_back(result_of_verdict("a/b[x,dp1->dp1]", Verdict::skip));
    results.back().variant = std::to_string(i);
    results.back().reason = "reason " + std::to_string(i);
  }
  const std::string table = summary_table(results, false);
  EXPECT_THAT(table, HasSubstr("    SKIP: reason 3\n    and 5 more reasons\n"));
  EXPECT_THAT(table, Not(HasSubstr("reason 4")));
}

TEST(SummaryTable, FitsATerminal) {
  auto results = of_every_verdict();
  for (CaseResult& result : results) {
    result.scenario = "a/" + std::string(200, 'n');
    result.adapter = "an_adapter_with_a_name_that_goes_on_and_on";
    result.save_environment = EnvironmentRecord{"an_environment_with_a_long_name", {}};
    result.symptom = result.reason = std::string(300, 's');
    result.seconds = 123456.7;
  }
  std::istringstream lines(summary_table(results, false));
  for (std::string line; std::getline(lines, line);) {
    if (line.find("[x]") == line.npos) {
      EXPECT_LE(columns(line), 110U) << line;
    }
  }
}

TEST(SummaryTable, ColourOnlyWhereAsked) {
  EXPECT_THAT(summary_table(of_every_verdict(), false), Not(HasSubstr("\x1b")));
  EXPECT_THAT(summary_table(of_every_verdict(), true), HasSubstr("\x1b["));
}

TEST(SummaryTable, OfNothingSaysSo) {
  EXPECT_THAT(summary_table({}, false), HasSubstr("0 cases\n"));
}

}  // namespace
}  // namespace resumecheck
