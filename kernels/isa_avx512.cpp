// The phases with AVX-512 (F, BW, DQ, VL); only called where the processor has them.
// Its compiler flags are in CMakeLists.txt; they may change the speed and never a bit.
#if defined(__x86_64__)
#define RESUMECHECK_ISA_UNIT avx512_unit
#include "kernels/isa_unit_body.h"
#endif
