// A pass that could not have failed is VACUOUS, not a pass. Every reason is one line that says what
// to change.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/compare/bit_compare.h"
#include "harness/state/assembly.h"

namespace resumecheck {

struct VacuityEvidence {
  const AssembledState* fresh = nullptr;  // before the first step
  const AssembledState* at_save = nullptr;
  const AssembledState* after_load = nullptr;
  const AssembledState* at_end = nullptr;  // the continuation's last step
  const AssembledState* resumed_end = nullptr;
  bool mesh_changed = false;
  bool same_storage = false;       // source and target are the same files or the same memory
  std::vector<std::string> parts;  // selected by the scenario
  std::vector<std::pair<std::string, Shape>> parameters;  // that the scenario declares
  std::int64_t compared_tensors = 0;
  bool rounds_by_generator = false;  // each rank draws for its rounding: its generator is state
};

// Nothing: the pass means something. Reasons: nothing compared; a selected part is on neither side,
// of a declared parameter or at all; a tensor has not its parameter's shape; every moment is zero;
// no generator where one decides the rounding; the saved state, or a part of it that steps change,
// equals a fresh start; the same between the
// save and the end; source and target alias; a mesh change that moved no box.
std::optional<std::string> why_vacuous(const VacuityEvidence& evidence);

}  // namespace resumecheck
