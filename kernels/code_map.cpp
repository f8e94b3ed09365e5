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

struct Codebook {
  const float* values;
  int entries;
};

int code_by_search(Codebook book, float quotient) {
  int code = 0;
  for (int half = book.entries / 2; half > 0; half /= 2)
    if (book.values[code + half] <= quotient) code += half;
  const int up = code < book.entries - 1 ? code + 1 : code;
  const float low = book.values[code], high = book.values[up];
  return quotient - low >= (high - low) * 0.5F ? up : code;
}

// The lowest key above `from` whose code exceeds `code`, or one past infinity's.
std::uint32_t threshold_above(Codebook book, std::uint32_t from, int code) {
  std::uint32_t low = from, high = key_of_infinity + 1;
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (code_by_search(book, float_of_key(middle)) > code ? high : low) = middle;
  }
  return high;
}

// A codebook of this project, its table, and the rule that the table is for.
struct StandardMap {
  Storage storage;
  bool is_signed;
  CodeRule rule;
  int shift;
  std::vector<std::uint32_t> table = carry_table(codebook().data(), entries(), shift);

  const std::vector<float>& codebook() const { return standard_codebook(storage, is_signed); }
  int entries() const { return static_cast<int>(codebook().size()); }
};

const StandardMap* standard_map_of(Storage storage, const float* codebook) {
  static const StandardMap maps[] = {
      {Storage::map8, true, CodeRule::table8_signed, signed_table_shift},
      {Storage::map8, false, CodeRule::table8_unsigned, unsigned_table_shift},
      {Storage::map4, true, CodeRule::table4, table4_shift},
      {Storage::map4, false, CodeRule::table4, table4_shift}};
  for (const StandardMap& map : maps)
    if (map.storage == storage &&
        std::memcmp(codebook, map.codebook().data(), map.codebook().size() * sizeof(float)) == 0)
      return &map;
  return nullptr;
}

}  // namespace

std::vector<std::uint32_t> carry_table(const float* codebook, int entries, int shift) {
  const Codebook book = {codebook, entries};
  const std::uint32_t bucket_size = 1U << shift;
  const auto upper_bits = static_cast<std::uint32_t>(256 - entries);
  std::vector<std::uint32_t> table(std::size_t{1} << (32 - shift), 0);
  std::uint32_t key = 0x007fffffU;  // minus infinity; below it are NaNs, whose code is 0
  int code = code_by_search(book, float_of_key(key));
  if (code != 0) return {};
  std::uint32_t threshold = threshold_above(book, key, code);
  for (std::uint32_t bucket = key >> shift; bucket <= key_of_infinity >> shift; ++bucket) {
    std::uint32_t entry = (static_cast<std::uint32_t>(code) + upper_bits) << shift;
    if (threshold >> shift == bucket && threshold <= key_of_infinity) {
      const int next = code_by_search(book, float_of_key(threshold));
      if (next != code + 1) return {};
      entry += bucket_size - (threshold & (bucket_size - 1));
      code = next;
      threshold = threshold_above(book, threshold, code);
      if (threshold >> shift == bucket && threshold <= key_of_infinity) return {};
    }
    table[bucket] = entry;
  }
  // Infinity shares its bucket with NaNs: one step above it the code wraps to 0.
  const std::uint32_t last = key_of_infinity >> shift;
  if (code != entries - 1 || table[last] != 255U << shift) return {};
  if ((key_of_infinity & (bucket_size - 1)) != 0) return {};
  table[last] += bucket_size - 1;
  return table;
}

CodeMap code_map_for(Storage storage, const float* codebook) {
  if (storage == Storage::e4m3)
    return {CodeRule::e4m3, standard_codebook(storage, true).data(), nullptr, 256, 0};
  const int entries = storage == Storage::map4 ? 16 : 256;
  if (const StandardMap* map = standard_map_of(storage, codebook))
    return {map->rule, codebook, map->table.data(), entries, static_cast<int>(map->table.size())};
  const CodeRule search = storage == Storage::map4 ? CodeRule::search4 : CodeRule::search8;
  return {search, codebook, nullptr, entries, 0};
}

}  // namespace resumecheck::kernels
