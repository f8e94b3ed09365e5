// The deliberate mistakes of a load that concern whole tensors of FP8 state.
#pragma once

#include "harness/adapters/reference/defect.h"
#include "harness/state/logical_state.h"

namespace resumecheck {

void damage_fp8(LogicalState& state, const Defects& defects);

}  // namespace resumecheck
