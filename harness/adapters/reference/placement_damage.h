// Deliberate mistakes about meshes: a load that is right for the mesh it was written on takes the
// ranks' order, a shard's length or a stage's first layer for what they are there. Each shows on
// some meshes only, so each says which.
#pragma once

#include <vector>

#include "harness/adapters/reference/defect.h"

namespace resumecheck {

std::vector<DefectDescription> placement_defects();

// To a checkpoint, before anybody takes his part of it. settings: of the loading run; onto: its
// mesh.
void damage_placement(LogicalState& checkpoint, const Defects& defects, const Settings& settings,
                      const Mesh& onto);

}  // namespace resumecheck
