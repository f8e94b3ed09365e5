// CI systems drop a whole report over one bad byte, and count what the report says: the document
// must be well-formed whatever a framework printed, and eight verdicts must land in the right four
// outcomes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pugixml.hpp>

#include "harness/report/example_result.h"
#include "harness/report/printable_text.h"
#include "harness/report/report.h"

namespace resumecheck {
namespace {

using testing::HasSubstr;

pugi::xml_document parsed(const std::vector<CaseResult>& results) {
  pugi::xml_document document;
  const auto outcome = document.load_string(junit_xml(results).c_str());
  EXPECT_TRUE(outcome) << outcome.description();
  return document;
}

TEST(Junit, VerdictsBecomeOutcomes) {
  const std::pair<Verdict, const char*> outcomes[] = {
      {Verdict::pass, ""},       {Verdict::fail, "failure"},  {Verdict::vacuous, "failure"},
      {Verdict::xfail, ""},      {Verdict::xpass, "failure"}, {Verdict::skip, "skipped"},
      {Verdict::error, "error"}, {Verdict::timeout, "error"}};
  std::vector<CaseResult> results;
  for (const auto& [verdict, element] : outcomes) {
    results.push_back(result_of_verdict("a/b[x]", verdict));
  }
  const pugi::xml_document document = parsed(results);
  const pugi::xml_node suite = document.child("testsuites").child("testsuite");
  auto node = suite.child("testcase");
  for (const auto& [verdict, element] : outcomes) {
    std::string found;
    for (const char* name : {"failure", "error", "skipped"}) {
      if (node.child(name)) found += name;
    }
    EXPECT_EQ(found, element) << name_of(verdict);
    node = node.next_sibling("testcase");
  }
  for (const pugi::xml_node counts : {suite, document.child("testsuites")}) {
    EXPECT_EQ(counts.attribute("tests").as_int(), 8);
    EXPECT_EQ(counts.attribute("failures").as_int(), 3);
    EXPECT_EQ(counts.attribute("errors").as_int(), 2);
    EXPECT_EQ(counts.attribute("skipped").as_int(), 1);
    EXPECT_DOUBLE_EQ(counts.attribute("time").as_double(), 8.0);
  }
}

TEST(Junit, CasesKeepTheirNamesAndTheirBlocks) {
  const pugi::xml_document document = parsed({example_failure()});
  const auto node = document.child("testsuites").child("testsuite").child("testcase");
  EXPECT_EQ(node.attribute("name").value(), example_failure().name);
  EXPECT_STREQ(node.attribute("classname").value(), "adamw8bit.moments_survive_dp_shrink");
  EXPECT_EQ(node.child("failure").text().get(), failure_block(example_failure(), false));
}

TEST(Junit, AKnownDefectHasPassedWithANote) {
  CaseResult result = full_result();
  const pugi::xml_document document = parsed({result});
  const auto node = document.child("testsuites").child("testsuite").child("testcase");
  EXPECT_THAT(node.child("system-out").text().get(), HasSubstr("XFAIL pytorch/ao#3314"));
}

TEST(Junit, ASkipSaysWhy) {
  CaseResult result = result_of_verdict("a/b[x]", Verdict::skip);
  result.reason = "no GPU";
  const pugi::xml_document document = parsed({result});
  const auto node = document.child("testsuites").child("testsuite").child("testcase");
  EXPECT_STREQ(node.child("skipped").attribute("message").value(), "no GPU");
}

TEST(Junit, StaysWellFormedWhateverWasPrinted) {
  CaseResult result = full_result();
  result.verdict = Verdict::fail;
  std::string hostile = "]]>--><&\"'";
  for (int byte = 0; byte < 256; ++byte) hostile += static_cast<char>(byte);
  for (std::string* text :
       {&result.symptom, &result.reason, &result.name, &result.scenario, &result.again}) {
    *text += hostile;
  }
  const std::string xml = junit_xml({result});
  EXPECT_EQ(printable(xml, true), xml) << "a byte that XML refuses is in the report";
  const pugi::xml_document document = parsed({result});
  EXPECT_EQ(
      document.child("testsuites").child("testsuite").child("testcase").attribute("name").value(),
      printable(result.name));
}

}  // namespace
}  // namespace resumecheck
