// A page that shows a caught mistake where one was missed would be believed at a glance.
#include "harness/adapters/reference/detection_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace resumecheck {
namespace {

using testing::HasSubstr;
using testing::Not;
using Outcome = DetectionCell::Outcome;

DetectionRow row(const std::string& scenario, Outcome outcome, bool named,
                 const std::string& symptom = "") {
  DetectionRow row;
  row.scenario = scenario;
  row.control.verdict = Verdict::pass;
  row.cells = {{"zero_moments", outcome, named ? "fresh start" : "", named, "after_load", symptom,
                scenario + "[dp2->dp1]"}};
  return row;
}

std::string page_of(const std::vector<DetectionRow>& rows) {
  DetectionMatrix matrix;
  matrix.defects = {"zero_moments"};
  matrix.rows = rows;
  const std::string page = to_page(matrix);
  return page.substr(page.find("<tbody>"));
}

TEST(DetectionPage, ACellSaysHowItWasCaught) {
  EXPECT_THAT(page_of({row("a/b", Outcome::caught, true)}), HasSubstr("class=\"named\""));
  EXPECT_THAT(page_of({row("a/b", Outcome::caught, false)}), HasSubstr("class=\"other\""));
  EXPECT_THAT(page_of({row("a/b", Outcome::missed, false)}), HasSubstr("class=\"missed\""));
  EXPECT_THAT(page_of({row("a/b", Outcome::no_effect, false)}), HasSubstr("<td></td>"));
}

TEST(DetectionPage, VariantsShareAColumnThatShowsTheBestOfThem) {
  const std::string page =
      page_of({row("a/b[x]", Outcome::missed, false), row("a/b[y]", Outcome::caught, true),
               row("a/b[z]", Outcome::no_effect, false)});
  EXPECT_THAT(page, HasSubstr("a/b[y][dp2-&gt;dp1]"));
  EXPECT_THAT(page, Not(HasSubstr("class=\"missed\"")));
  EXPECT_THAT(page, HasSubstr("<td class=\"total\">1</td>"));
}

TEST(DetectionPage, WhatCasesSayCannotBecomeMarkup) {
  const std::string page = page_of({row("a/b", Outcome::caught, true, "\"><script>&")});
  EXPECT_THAT(page, HasSubstr("&quot;&gt;&lt;script&gt;&amp;"));
  EXPECT_THAT(page, Not(HasSubstr("<script>")));
}

}  // namespace
}  // namespace resumecheck
