// Mistakes about who holds what: each is right on the mesh that somebody tried it on, and silently
// wrong on another.
#pragma once

#include "harness/adapters/reference/defect.h"

namespace resumecheck {

std::vector<DefectDescription> placement_defects();

void damage_placement(LogicalState& checkpoint, const Defects& defects, const Settings& settings,
                      const Mesh& onto);

}  // namespace resumecheck
