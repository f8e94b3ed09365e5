// The phases with AVX2 and FMA; only called where the processor has both.
// Its compiler flags are in CMakeLists.txt; they may change the speed and never a bit.
#if defined(__x86_64__)
#define RESUMECHECK_ISA_UNIT avx2_unit
#include "kernels/isa_unit_body.h"
#endif
