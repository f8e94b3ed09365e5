// What a translation unit built for one instruction set offers to the rest of the program. Only
// plain structs and pointers cross this line: an inline function of the standard library compiled
// with AVX-512 could otherwise be the copy that the linker keeps for everybody.
#pragma once

#include <cstdint>

#include "kernels/model_unit.h"
#include "kernels/step_scalars.h"

namespace resumecheck::kernels {

// How many low bits of a quotient's key a bucket of each standard codebook's carry table spans
// (code_map.h); 4-bit codebooks are coarse enough for one shift.
constexpr int signed_table_shift = 17, unsigned_table_shift = 16, table4_shift = 20;

// How a quotient becomes a code: by the carry table where there is one for this codebook, otherwise
// by binary search; a float of 8 bits by its own bits.
enum class CodeRule { table8_signed, table8_unsigned, table4, search8, search4, e4m3 };

struct CodeMap {
  CodeRule rule = CodeRule::search8;
  const float* codebook = nullptr;       // [entries], sorted but for e4m3: what a code stands for
  const std::uint32_t* table = nullptr;  // [table_entries], see code_map.h; null where none is used
  int entries = 0, table_entries = 0;
};

// A parameter and its gradient, of one type.
struct ParamTask {
  bool bf16 = false;
  void* param = nullptr;
  const void* grad = nullptr;
  const std::uint16_t* rounding = nullptr;  // null: to nearest even
  float* master = nullptr;                  // null: the parameter is its own
};

// A run of elements that starts on the block grid of its moments. Every pointer is to the first
// element (or the first block's scale) of the run.
struct BlockTask {
  std::int64_t count = 0;  // elements; the last block may be short
  std::int64_t block = 0;  // elements of a block
  bool fused = true;       // the linear interpolation's multiply-add
  ParamTask param;
  std::uint8_t* codes1 = nullptr;
  std::uint8_t* codes2 = nullptr;
  float* scale1 = nullptr;  // [blocks]
  float* scale2 = nullptr;
  CodeMap map1, map2;
  std::int32_t zero = 0;  // see CodebookEntries
  StepScalars scalars;
};

struct PlainTask {
  std::int64_t count = 0;
  bool fused = true;          // as in BlockTask
  bool bf16_moments = false;  // the type of moment1 and moment2
  ParamTask param;
  void* moment1 = nullptr;
  void* moment2 = nullptr;
  StepScalars scalars;
};

struct QuantiseTask {
  std::int64_t count = 0;
  std::int64_t block = 0;
  const float* values = nullptr;
  std::uint8_t* codes = nullptr;
  float* scale = nullptr;  // [blocks]
  CodeMap map;
};

struct DequantiseTask {
  std::int64_t count = 0;
  std::int64_t block = 0;
  const std::uint8_t* codes = nullptr;
  const float* scale = nullptr;  // [blocks]
  CodeMap map;
  float* values = nullptr;
  std::int32_t zero = 0;  // see CodebookEntries
};

struct IsaUnit {
  // Whole blocks, updated and requantised. scratch: [2 * block] floats.
  void (*update_blocks)(const BlockTask& task, float* scratch);
  // One part of one block (task.count <= task.block): updates the parameters, leaves codes and
  // scales alone, gives the new moments in fp32 and the largest magnitude of each as bits.
  void (*update_part)(const BlockTask& task, float* moment1, float* moment2, std::uint32_t* absmax);
  // One part of one block, whose largest magnitude is known.
  void (*quantise_part)(const QuantiseTask& task, std::uint32_t absmax);
  void (*quantise_blocks)(const QuantiseTask& task);
  void (*dequantise_blocks)(const DequantiseTask& task);
  void (*update_plain)(const PlainTask& task);
  ModelUnit model;
};

extern const IsaUnit baseline_unit;
#if defined(__x86_64__)
extern const IsaUnit avx2_unit;
extern const IsaUnit avx512_unit;
#endif

}  // namespace resumecheck::kernels
