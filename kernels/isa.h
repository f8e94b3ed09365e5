// From a name of an instruction set to its functions. Asking for one that this machine lacks is an
// error with a name, not an illegal instruction.
#pragma once

#include "kernels/adamw.h"
#include "kernels/isa_unit.h"

namespace resumecheck::kernels {

const IsaUnit& unit_of(Isa isa);  // throws std::invalid_argument where the processor lacks it

}  // namespace resumecheck::kernels
