// What happens to ranks on a bad day, done by the rank to itself at a place the scenario names.
#pragma once

#include <string>
#include <vector>

#include "harness/scenario/scenario.h"

namespace resumecheck {

// Does what `faults` tell this rank to suffer at `place` ("load", "step 4", "save_run step 2"):
// kill_rank, hang_rank, exit_early do not return; raise_exception throws; flood_output prints.
void suffer_faults(const std::vector<FaultSpec>& faults, int rank, const std::string& place);

}  // namespace resumecheck
