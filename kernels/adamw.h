// AdamW with moments of few bits, in fp32 arithmetic that no device, instruction set or thread
// count can change. Blocks run over the whole flattened parameter; a rank holds a contiguous run of
// it, so at most its first and last block are cut by a shard boundary, and those take their absmax
// from every rank that touches them before they can be quantised.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/step_scalars.h"

namespace resumecheck::kernels {

// canonical: this project's own rule. torchao_eager: torch's operations one by one, on a CPU.
// torchao_compiled: what inductor's C++ makes of them, in which nothing is fused: the bits of
// torchao 0.18.0 on torch 2.15.0 in every case. torch 2.8.0's inductor gives the same but for two
// constants: with a beta up to 0.5 it rounds 1 - beta before it takes 1 off, as eager torch does,
// and the scale of an e4m3 block is absmax times the rounded 1/448 (one ulp off for about half of
// all blocks).
enum class Profile { canonical, torchao_eager, torchao_compiled };
enum class Isa { baseline, avx2, avx512 };
enum class ParamType { fp32, bf16 };

// What a moment's code stands for: an entry of the "dynamic map" (256 entries, or 16 for 4 bits; a
// code takes a byte in either), or a float of 1, 4 and 3 bits (e4m3fn).
enum class Storage { map8, map4, e4m3 };

Isa best_isa();                     // of this machine, read once
std::vector<Isa> available_isas();  // baseline first
const char* name_of(Isa isa);

struct AdamWSettings {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  Profile profile = Profile::canonical;
};

// By the profile's rule: canonical takes products and powers in double and rounds them once;
// torchao_eager multiplies rounded factors and asks the C library's fp32 powf; torchao_compiled
// too, but it folds the weights of the linear interpolations in double.
StepScalars step_scalars(const AdamWSettings& settings, std::int64_t step);  // step is 1-based

// Ascending, and what a code is an index of: 256 or 16 entries; signed for moment1, unsigned for
// moment2. e4m3: the value of each of the 256 codes in the order of codes, the same for both
// moments, NaN for 0x7f and 0xff; nothing stores it.
const std::vector<float>& standard_codebook(Storage storage, bool is_signed);

// Codes of 4 bits as checkpoints pack them: the first of a pair is the high nibble. An odd count is
// filled up with a code 0. unpack throws std::invalid_argument for a count that does not fit.
std::vector<std::uint8_t> pack_nibbles(const std::uint8_t* codes, std::int64_t count);
std::vector<std::uint8_t> unpack_nibbles(const std::vector<std::uint8_t>& packed,
                                         std::int64_t count);

// A rank's contiguous run [first, first + count) of a flattened parameter of `whole` elements. All
// pointers are to the run's own storage; scale has one entry for each block the run touches, in
// order.
struct QuantisedRun {
  std::int64_t first = 0, count = 0, whole = 0, block = 256;
  Storage storage = Storage::map8;
  ParamType type = ParamType::fp32;
  void* param = nullptr;           // [count], fp32 or bf16 bits
  const void* grad = nullptr;      // [count], the parameters' type
  std::uint8_t* codes1 = nullptr;  // [count]
  std::uint8_t* codes2 = nullptr;
  float* scale1 = nullptr;  // [blocks touched]
  float* scale2 = nullptr;
  const float* codebook1 = nullptr;  // [256] or [16] fp32, sorted; null for e4m3
  const float* codebook2 = nullptr;
  // Parameters of bf16 only, both null otherwise:
  const std::uint16_t* rounding = nullptr;  // [count]; null: to nearest even. Else stochastic: away
                                            // from zero iff rounding[i] < the 16 bits cut off
  float* master = nullptr;  // [count]; where given, the step is computed on it and param is its
                            // rounding
};
std::int64_t first_block(const QuantisedRun& run);
std::int64_t blocks_touched(const QuantisedRun& run);  // 0 for an empty run

// A block of which the run holds only a part: its new moments wait here, in fp32, for the absmax of
// the whole block.
struct CutBlock {
  std::int64_t block = 0;               // index in the whole parameter
  std::int64_t begin = 0;               // offset of its first element within the run
  std::vector<float> moment1, moment2;  // [elements of the block in this run]
  std::uint32_t absmax1 = 0,
                absmax2 = 0;  // bits without sign, integer maximum: over this run's part at first;
                              // the caller replaces them by the maximum over all ranks
};

// Updates every parameter of the run and requantises every whole block. The cut blocks (at most
// two) are returned.
std::vector<CutBlock> update_quantised(const QuantisedRun& run, const StepScalars& scalars,
                                       Profile profile, Isa isa);
// Requantises one cut block once absmax1 and absmax2 cover all its ranks.
void finish_cut_block(const QuantisedRun& run, const CutBlock& cut, Isa isa);

// The same step with unquantised moments (fp32, or the parameters' type in the torchao profiles).
struct PlainRun {
  std::int64_t count = 0;
  ParamType type = ParamType::fp32;
  ParamType moment_type = ParamType::fp32;
  void* param = nullptr;
  const void* grad = nullptr;
  void* moment1 = nullptr;
  void* moment2 = nullptr;
  const std::uint16_t* rounding = nullptr;  // as in QuantisedRun
  float* master = nullptr;
};
void update_plain(const PlainRun& run, const StepScalars& scalars, Profile profile, Isa isa);

// values [count] from codes and scales, and back; first/whole/block place the run on the block grid
// as above. codebook: null for e4m3.
void dequantise(Storage storage, const std::uint8_t* codes, const float* scale,
                const float* codebook, std::int64_t first, std::int64_t count, std::int64_t block,
                float* values, Isa isa);
// Blocks of a whole, uncut tensor; the last may be short. absmax by integer maximum of the bits
// without sign.
void quantise(Storage storage, const float* values, std::int64_t count, std::int64_t block,
              const float* codebook, std::uint8_t* codes, float* scale, Isa isa);

// On a CUDA device, through host buffers (copies both ways): equal bits to the host build. In
// programs that link the target resumecheck_kernels_device; where it was built without CUDA,
// device_count() is 0 and the others throw std::runtime_error. A CUDA error is a
// DeviceFailure (a std::runtime_error) that names the call. Blocks of more than 4096 elements are
// refused.
int device_count();                     // 0 as well where there is no driver
void use_device(int device);            // by this thread, from now on
std::string device_bus_id(int device);  // "0000:3b:00.0", the same to every process of a host
struct DeviceDescription {
  std::string name;
  int compute_major = 0, compute_minor = 0;
  int driver_version = 0, runtime_version = 0;  // as CUDA writes them: 13000 is 13.0
};
DeviceDescription describe_device();  // of the current one
std::vector<CutBlock> update_quantised_on_device(const QuantisedRun& run,
                                                 const StepScalars& scalars, Profile profile);
void finish_cut_block_on_device(const QuantisedRun& run, const CutBlock& cut);
void update_plain_on_device(const PlainRun& run, const StepScalars& scalars, Profile profile);
void dequantise_on_device(Storage storage, const std::uint8_t* codes, const float* scale,
                          const float* codebook, std::int64_t first, std::int64_t count,
                          std::int64_t block, float* values);
void quantise_on_device(Storage storage, const float* values, std::int64_t count,
                        std::int64_t block, const float* codebook, std::uint8_t* codes,
                        float* scale);

}  // namespace resumecheck::kernels
