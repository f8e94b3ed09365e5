// The phases as AVX2 code with -ffp-contract=fast: deliberately other bits. See contracted.h.
#if defined(__x86_64__)
#define RESUMECHECK_ISA_UNIT contracted_unit
#include "kernels/isa_unit_body.h"
#endif
