// Both tables are derived from the search itself, by bisection over all floats in ascending order,
// so that they cannot disagree with it about a tie.
#include "kernels/code_map.h"

#include <cstring>

#include "kernels/adamw.h"
#include "kernels/float_bits.h"

namespace resumecheck::kernels {
namespace {

constexpr std::uint32_t key_of_infinity = 0xff800000U;

// The inverse of the ordered key: negatives reversed, below positives.
float float_of_key(std::uint32_t key) {
  return float_of((key & 0x80000000U) != 0 ? key ^ 0x80000000U : ~key);
}

int code_by_search(const float* codebook, float quotient) {
  int code = 0;
  for (int half = 128; half > 0; half /= 2)
    if (codebook[code + half] <= quotient) code += half;
  const int up = code < 255 ? code + 1 : 255;
  return quotient - codebook[code] >= (codebook[up] - codebook[code]) * 0.5F ? up : code;
}

// The lowest key above `from` whose code exceeds `code`, or one past infinity's.
std::uint32_t threshold_above(const float* codebook, std::uint32_t from, int code) {
  std::uint32_t low = from, high = key_of_infinity + 1;
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (code_by_search(codebook, float_of_key(middle)) > code ? high : low) = middle;
  }
  return high;
}

struct StandardTables {
  std::vector<std::uint32_t> signed_table =
      carry_table(standard_codebook(Storage::map8, true).data(), signed_table_shift);
  std::vector<std::uint32_t> unsigned_table =
      carry_table(standard_codebook(Storage::map8, false).data(), unsigned_table_shift);
};

const StandardTables& standard_tables() {
  static const StandardTables tables;
  return tables;
}

}  // namespace

std::vector<std::uint32_t> carry_table(const float* codebook, int shift) {
  const std::uint32_t bucket_size = 1U << shift;
  std::vector<std::uint32_t> table(std::size_t{1} << (32 - shift), 0);
  std::uint32_t key = 0x007fffffU;  // minus infinity; below it are NaNs, whose code is 0
  int code = code_by_search(codebook, float_of_key(key));
  if (code != 0) return {};
  std::uint32_t threshold = threshold_above(codebook, key, code);
  for (std::uint32_t bucket = key >> shift; bucket <= key_of_infinity >> shift; ++bucket) {
    std::uint32_t entry = static_cast<std::uint32_t>(code) << shift;
    if (threshold >> shift == bucket && threshold <= key_of_infinity) {
      const int next = code_by_search(codebook, float_of_key(threshold));
      if (next != code + 1) return {};
      entry += bucket_size - (threshold & (bucket_size - 1));
      code = next;
      threshold = threshold_above(codebook, threshold, code);
      if (threshold >> shift == bucket && threshold <= key_of_infinity) return {};
    }
    table[bucket] = entry;
  }
  // Infinity shares its bucket with NaNs: one step above it the code wraps to 0.
  const std::uint32_t last = key_of_infinity >> shift;
  if (code != 255 || table[last] != 255U << shift) return {};
  table[last] += bucket_size - 1;
  return table;
}

CodeMap code_map_for(const float* codebook) {
  const auto is = [codebook](const std::vector<float>& standard) {
    return std::memcmp(codebook, standard.data(), standard.size() * sizeof(float)) == 0;
  };
  if (is(standard_codebook(Storage::map8, true)))
    return {codebook, standard_tables().signed_table.data(), true};
  if (is(standard_codebook(Storage::map8, false)))
    return {codebook, standard_tables().unsigned_table.data(), false};
  return {codebook, nullptr, false};
}

}  // namespace resumecheck::kernels
