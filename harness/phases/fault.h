// Things that happen to ranks, on purpose: which phase each belongs to, and when and to which rank
// it happens where the scenario leaves that open. A fault that never happens would make its
// scenario pass for the wrong reason, so one that cannot happen is an error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/scenario/mesh.h"
#include "harness/scenario/scenario.h"
#include "harness/scenario/settings.h"

namespace resumecheck {

// truncate_checkpoint, remove_checkpoint: done by the harness between the two phases.
const std::vector<std::string>& checkpoint_fault_names();

// The faults that a phase's ranks are told of, with `rank` and `at` filled in. Every other name is
// a defect of the adapter's save or load and goes to both phases unchanged. Rank faults default to
// the last rank, raise_exception to "load" and the others to the first step after the save.
// Error(usage): a rank that the mesh does not have, a step that the run does not have.
std::vector<FaultSpec> faults_of_phase(const std::vector<FaultSpec>& faults, std::string_view phase,
                                       const Mesh& mesh, const Settings& settings);

// "name", "name:rank" or "name:rank:at", as --defect takes it: "kill_rank:1:save_run step 2".
// Error(usage) also for a rank or moment that would be ignored; the name is checked elsewhere.
FaultSpec parse_fault(std::string_view text);

}  // namespace resumecheck
