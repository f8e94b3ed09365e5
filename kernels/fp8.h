// Casts between fp32 and floats of 8 bits as Transformer Engine's kernels do them, and the largest
// magnitude that the next scale is made of. They saturate, unlike the cast of an 8-bit moment,
// whose overflow is a NaN: the scale of a tensor is older than the tensor, so values beyond it are
// ordinary.
#pragma once

#include <cstdint>

#include "kernels/adamw.h"

namespace resumecheck::kernels {

// 1, 4 and 3 bits (no infinity; NaN is 0x7f and 0xff), or 1, 5 and 2 bits (infinity is 0x7c; NaN is
// 0x7d to 0x7f).
enum class Fp8Format { e4m3, e5m2 };

float fp8_max(Fp8Format format);  // 448 or 57344

// codes[i]: the nearest code of f(values[i] * scale), ties to even. What is larger than the largest
// finite code, infinity included, gets that code with its sign; a NaN gets 0x7f (e4m3) or 0x7e
// (e5m2), without its sign.
void quantise_fp8(const float* values, std::int64_t count, float scale, Fp8Format format,
                  std::uint8_t* codes, Isa isa);
// values[i]: exactly what the code stands for, no scale applied; every NaN is 0x7fc00000.
void dequantise_fp8(const std::uint8_t* codes, std::int64_t count, Fp8Format format, float* values,
                    Isa isa);
// The largest magnitude as bits of an fp32: NaNs are skipped, infinity counts, 0 where there is
// nothing. The maximum over ranks and micro-batches is the integer maximum of these.
std::uint32_t amax_bits(const float* values, std::int64_t count, Isa isa);
// On a device: device_model_kernels() of model.h.

}  // namespace resumecheck::kernels
