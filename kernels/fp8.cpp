// The host's casts. A device and every instruction set give the same codes: the phases work on
// bits.
#include "kernels/fp8.h"

#include "kernels/model.h"

namespace resumecheck::kernels {

float fp8_max(Fp8Format format) { return format == Fp8Format::e4m3 ? 448.0F : 57344.0F; }

void quantise_fp8(const float* values, std::int64_t count, float scale, Fp8Format format,
                  std::uint8_t* codes, Isa isa) {
  host_model_kernels(isa).quantise(values, count, scale, format, codes);
}

void dequantise_fp8(const std::uint8_t* codes, std::int64_t count, Fp8Format format, float* values,
                    Isa isa) {
  host_model_kernels(isa).dequantise(codes, count, format, values);
}

std::uint32_t amax_bits(const float* values, std::int64_t count, Isa isa) {
  return host_model_kernels(isa).amax(values, count);
}

}  // namespace resumecheck::kernels
