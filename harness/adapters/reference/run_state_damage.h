// Deliberate mistakes with what a run keeps beside parameters and moments.
#pragma once

#include <vector>

#include "harness/adapters/reference/defect.h"
#include "harness/adapters/reference/run_state.h"

namespace resumecheck {

std::vector<DefectDescription> run_state_defects();

// Those that can be seen in the checkpoint, before anybody takes his part of it. settings: of the
// loading run; onto: its mesh.
void damage_run_state(LogicalState& checkpoint, const Defects& defects, const Settings& settings,
                      const Mesh& onto);

}  // namespace resumecheck
