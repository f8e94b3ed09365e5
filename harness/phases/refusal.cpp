#include "harness/phases/refusal.h"

#include <fmt/format.h>

#include "harness/compare/bit_compare.h"

namespace resumecheck {
namespace {

// "load: text": the place is all of failed_at, the text anywhere in the symptom, as a framework may
// put a traceback before its words.
bool is_as_wanted(const RefusalEvidence& evidence) {
  const std::size_t colon = evidence.wanted.find(": ");
  return evidence.raised && evidence.failed_at == evidence.wanted.substr(0, colon) &&
         evidence.symptom.find(evidence.wanted.substr(colon + 2)) != std::string::npos;
}

void not_refused(const std::string& failed_at, const std::string& what, CaseResult& result) {
  result.verdict = Verdict::fail;
  result.failed_at = failed_at;
  result.symptom = "was not refused: " + what;
  result.oracles["refusal"] = "fail";
}

}  // namespace

void judge_refusal(const RefusalEvidence& evidence, CaseResult& result) {
  if (evidence.failed_at.empty()) {
    not_refused("load", fmt::format("it loaded and trained to step {}", evidence.train_until),
                result);
    return;
  }
  const std::string seen = evidence.failed_at + ": " + evidence.symptom;
  if (!is_as_wanted(evidence)) {
    not_refused(evidence.failed_at, seen, result);
    return;
  }
  if (compare(*evidence.fresh, *evidence.at_save, evidence.parts).same()) {
    result.verdict = Verdict::vacuous;
    result.reason = "the state that was refused is a fresh one: train before the save";
    result.oracles["refusal"] = "pass";
    return;
  }
  result.verdict = Verdict::pass;
  result.oracles["refusal"] = "pass";
  result.notes.push_back("refused: " + seen);
}

}  // namespace resumecheck
