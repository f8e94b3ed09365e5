// The phases as AVX2 code with -ffast-math: deliberately other bits. See contracted.h.
#if defined(__x86_64__)
#define RESUMECHECK_ISA_UNIT fast_math_unit
#include "kernels/isa_unit_body.h"
#endif
