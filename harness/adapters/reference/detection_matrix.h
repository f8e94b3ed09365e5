// Defect by scenario: which mistake does which scenario see, and what does the diagnosis call it?
// A suite is only as good as the mistakes it is known to catch; a scenario that no defect turns red
// cannot fail, and a defect that none catches is a hole.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/compare/case_result.h"
#include "harness/scenario/case.h"

namespace resumecheck {

struct DetectionCell {
  enum class Outcome { caught, no_effect, missed, not_run };
  std::string defect;
  Outcome outcome = Outcome::not_run;
  std::string fit;     // the diagnosis' first answer, "" where it has none
  bool named = false;  // that answer names this defect
  std::string failed_at, symptom;
  std::string case_name;  // the mesh pair that told
};

struct DetectionRow {
  std::string scenario;              // with its variant, where it has one
  CaseResult control;                // without a defect: must pass
  std::vector<DetectionCell> cells;  // in the order of DetectionMatrix::defects
  bool can_fail() const;
};

struct DetectionMatrix {
  std::vector<std::string> defects;
  std::vector<DetectionRow> rows;
  bool whole = true;  // all scenarios: only then must each defect be caught by one of them

  // One line each: a control that is not green, a defect that no scenario catches by its name, a
  // scenario that no defect turns red. Empty: the suite can be believed.
  std::vector<std::string> problems() const;
};

// Every native case's scenario once, each variant of it, with the mesh pair that tells most (the
// smallest that shards on both sides) and, for a defect that it does not show, one more of another
// kind. States go below `folder` and are removed again.
DetectionMatrix detect(const std::vector<Case>& cases, const std::filesystem::path& root,
                       const std::filesystem::path& folder);

std::string to_text(const DetectionMatrix& matrix);
std::string to_json(const DetectionMatrix& matrix);

}  // namespace resumecheck
