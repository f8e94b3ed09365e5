// The phases in the instruction set that every machine of this architecture has.
// Its compiler flags are in CMakeLists.txt; they may change the speed and never a bit.
#define RESUMECHECK_ISA_UNIT baseline_unit
#include "kernels/isa_unit_body.h"
