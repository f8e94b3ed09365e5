// A scenario may state that a resume is refused: what cannot be loaded rightly must be an error, as
// a load that guesses trains on from a wrong state. Only the failure that is asked for passes. One
// that fails otherwise, or dies and hangs in the right place, may be the harness's own mistake, and
// a save run that trained nothing has no state worth refusing.
#pragma once

#include <string>
#include <vector>

#include "harness/compare/case_result.h"
#include "harness/state/logical_state.h"

namespace resumecheck {

struct RefusalEvidence {
  std::string wanted;              // "load: text"
  std::string failed_at, symptom;  // of the resumed run; both "" where it went well
  bool raised = false;             // of its own accord: see PhaseOutcome::is_refusal
  const LogicalState* fresh = nullptr;
  const LogicalState* at_save = nullptr;
  std::vector<std::string> parts;
  std::int64_t train_until = 0;
};

// Fills verdict, failed_at, symptom or reason, the oracle "refusal", and a note of what was seen.
void judge_refusal(const RefusalEvidence& evidence, CaseResult& result);

}  // namespace resumecheck
