// JUnit for CI systems, which know four outcomes where there are eight verdicts. What is unexpected
// is a failure, what the harness could not do is an error, a known defect that shows as known has
// passed with a note, and only what did not run is skipped.
#include <fmt/format.h>

#include <algorithm>
#include <pugixml.hpp>
#include <sstream>

#include "harness/report/printable_text.h"
#include "harness/report/report.h"

namespace resumecheck {
namespace {

struct Suite {
  std::string name;
  std::vector<const CaseResult*> cases;
};

std::vector<Suite> by_scenario(const std::vector<CaseResult>& results) {
  std::vector<Suite> suites;
  for (const CaseResult& result : results) {
    auto suite = std::find_if(suites.begin(), suites.end(),
                              [&](const Suite& each) { return each.name == result.scenario; });
    if (suite == suites.end()) suite = suites.insert(suites.end(), {result.scenario, {}});
    suite->cases.push_back(&result);
  }
  return suites;
}

const char* element_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
    case Verdict::xfail:
      return nullptr;
    case Verdict::skip:
      return "skipped";
    case Verdict::error:
    case Verdict::timeout:
      return "error";
    case Verdict::fail:
    case Verdict::vacuous:
    case Verdict::xpass:
      break;
  }
  return "failure";
}

void set(pugi::xml_node node, const char* name, const std::string& value) {
  node.append_attribute(name).set_value(printable(value).c_str());
}

void set_counts(pugi::xml_node node, const std::vector<const CaseResult*>& cases) {
  int failures = 0, errors = 0, skipped = 0;
  double seconds = 0;
  for (const CaseResult* result : cases) {
    const char* element = element_of(result->verdict);
    const std::string_view kind = element == nullptr ? "" : element;
    failures += kind == "failure";
    errors += kind == "error";
    skipped += kind == "skipped";
    seconds += result->seconds;
  }
  set(node, "tests", std::to_string(cases.size()));
  set(node, "failures", std::to_string(failures));
  set(node, "errors", std::to_string(errors));
  set(node, "skipped", std::to_string(skipped));
  set(node, "time", fmt::format("{:.3f}", seconds));
}

std::string message(const CaseResult& result) {
  std::string text = result.failed_at;
  for (const std::string* more : {&result.symptom, &result.reason}) {
    if (!more->empty()) text += (text.empty() ? "" : ": ") + *more;
  }
  if (text.empty() && result.verdict == Verdict::xpass) text = "known to be broken and passes now";
  return text;
}

std::string class_name(const std::string& scenario) {
  std::string name = scenario;
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

void add_case(pugi::xml_node suite, const CaseResult& result) {
  pugi::xml_node node = suite.append_child("testcase");
  set(node, "name", result.name);
  set(node, "classname", class_name(result.scenario));
  set(node, "time", fmt::format("{:.3f}", result.seconds));
  if (const char* element = element_of(result.verdict)) {
    pugi::xml_node outcome = node.append_child(element);
    set(outcome, "type", std::string(name_of(result.verdict)));
    set(outcome, "message", message(result));
    if (result.verdict != Verdict::skip) {
      outcome.text().set(printable(failure_block(result, false), true).c_str());
    }
  } else if (result.verdict == Verdict::xfail) {
    const std::string note = fmt::format("XFAIL {}: {}\n{}", result.known_broken, message(result),
                                         failure_block(result, false));
    node.append_child("system-out").text().set(printable(note, true).c_str());
  }
}

}  // namespace

std::string junit_xml(const std::vector<CaseResult>& results) {
  pugi::xml_document document;
  pugi::xml_node declaration = document.append_child(pugi::node_declaration);
  declaration.append_attribute("version") = "1.0";
  declaration.append_attribute("encoding") = "UTF-8";
  pugi::xml_node root = document.append_child("testsuites");
  set(root, "name", "resumecheck");
  std::vector<const CaseResult*> all;
  all.reserve(results.size());
  for (const CaseResult& result : results) all.push_back(&result);
  set_counts(root, all);
  for (const Suite& suite : by_scenario(results)) {
    pugi::xml_node node = root.append_child("testsuite");
    set(node, "name", suite.name);
    set_counts(node, suite.cases);
    for (const CaseResult* result : suite.cases) add_case(node, *result);
  }
  std::ostringstream text;
  document.save(text, "  ");
  return text.str();
}

}  // namespace resumecheck
