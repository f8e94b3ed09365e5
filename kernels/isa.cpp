// Which instruction sets this machine can run, read from the processor once. The operating system
// must save the wide registers too: the compiler's own check covers both.
#include "kernels/isa.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace resumecheck::kernels {
namespace {

std::vector<Isa> read_isas() {
  std::vector<Isa> isas = {Isa::baseline};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    isas.push_back(Isa::avx2);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
      isas.push_back(Isa::avx512);
  }
#endif
  return isas;
}

const std::vector<Isa>& isas_of_this_machine() {
  static const std::vector<Isa> isas = read_isas();
  return isas;
}

}  // namespace

std::vector<Isa> available_isas() { return isas_of_this_machine(); }

Isa best_isa() { return isas_of_this_machine().back(); }

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::baseline:
      return "baseline";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
  }
  return "unknown";
}

const IsaUnit& unit_of(Isa isa) {
  const std::vector<Isa>& isas = isas_of_this_machine();
  if (std::find(isas.begin(), isas.end(), isa) == isas.end())
    throw std::invalid_argument(std::string("kernels: this processor has no ") + name_of(isa));
#if defined(__x86_64__)
  if (isa == Isa::avx2) return avx2_unit;
  if (isa == Isa::avx512) return avx512_unit;
#endif
  return baseline_unit;
}

}  // namespace resumecheck::kernels
