// Asks by computing, not by reading control registers, so that it holds on every architecture; the
// operands are volatile because the compiler would otherwise answer for the processor.
#include "kernels/float_environment.h"

#include <cfloat>
#include <stdexcept>
#include <string>

namespace resumecheck::kernels {
namespace {

bool flushes_results() {
  const volatile float smallest_normal = FLT_MIN, half = 0.5F;
  const volatile float result = smallest_normal * half;
  return result == 0.0F;
}

bool reads_denormals_as_zero() {
  const volatile float denormal = FLT_MIN / 4, large = 0x1p100F;
  const volatile float result = denormal * large;
  return result == 0.0F;
}

bool rounds_to_nearest_even() {
  const volatile float one = 1.0F, next = 1.0F + FLT_EPSILON, half_step = FLT_EPSILON / 2;
  const volatile float down = one + half_step, up = next + half_step, below = -one - half_step;
  return down == 1.0F && up == 1.0F + 2 * FLT_EPSILON && below == -1.0F;
}

}  // namespace

void check_float_environment() {
  std::string wrong;
  if (flushes_results()) wrong += "; denormal results are flushed to zero (FTZ)";
  if (reads_denormals_as_zero()) wrong += "; denormal operands are read as zero (DAZ)";
  if (!rounds_to_nearest_even()) wrong += "; rounding is not to nearest even";
  if (!wrong.empty())
    throw std::runtime_error("kernels: this process changes floating-point bits" + wrong +
                             ": find the library that sets this (often one built with -ffast-math) "
                             "and load it after, or unset it");
}

}  // namespace resumecheck::kernels
