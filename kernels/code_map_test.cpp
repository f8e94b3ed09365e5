// The one look-up of a code must equal the binary search with its tie rule for every float there
// is, NaNs and infinities included. By default a sample is compared, dense around each threshold
// and each bucket's edge; with RESUMECHECK_EXHAUSTIVE set, all 2^32 floats
// (ctest -C exhaustive).
#include "kernels/code_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "kernels/float_bits.h"
#include "kernels/isa.h"
#include "kernels/slow_twin.h"

namespace resumecheck::kernels {
namespace {

struct Map {
  const char* name;
  Storage storage;
  const std::vector<float>* codebook;
  int shift;
};
const Map maps[] = {
    {"signed", Storage::map8, &standard_codebook(Storage::map8, true), signed_table_shift},
    {"unsigned", Storage::map8, &standard_codebook(Storage::map8, false), unsigned_table_shift},
    {"signed 4-bit", Storage::map4, &standard_codebook(Storage::map4, true), table4_shift},
    {"unsigned 4-bit", Storage::map4, &standard_codebook(Storage::map4, false), table4_shift}};

CodeMap searched(const Map& map) {
  CodeMap search = code_map_for(map.storage, map.codebook->data());
  search.rule = map.storage == Storage::map8 ? CodeRule::search8 : CodeRule::search4;
  search.table = nullptr;
  return search;
}

// Divided by a scale of 1, the values are the quotients.
std::vector<std::uint8_t> codes_of(const std::vector<float>& quotients, const CodeMap& map) {
  std::vector<std::uint8_t> codes(quotients.size());
  float scale = 0;
  QuantiseTask task;
  task.count = task.block = static_cast<std::int64_t>(quotients.size());
  task.values = quotients.data();
  task.codes = codes.data();
  task.scale = &scale;
  task.map = map;
  unit_of(best_isa()).quantise_part(task, bits_of(1.0F));
  return codes;
}

// Fails at the first float on which they differ.
void compare_table_with_search(const Map& map, const std::vector<float>& quotients) {
  const CodeMap by_table = code_map_for(map.storage, map.codebook->data());
  const CodeMap by_search = searched(map);
  ASSERT_NE(by_table.table, nullptr) << "the standard codebook has no table";
  if (quotients.empty()) return;
  const std::vector<std::uint8_t> table = codes_of(quotients, by_table);
  const std::vector<std::uint8_t> search = codes_of(quotients, by_search);
  const auto differs = std::mismatch(table.begin(), table.end(), search.begin());
  if (differs.first == table.end()) return;
  const auto at = static_cast<std::size_t>(differs.first - table.begin());
  FAIL() << map.name << " map: the float with bits 0x" << std::hex << bits_of(quotients[at])
         << " gets code " << std::dec << int{table[at]} << " from the table and " << int{search[at]}
         << " from the search";
}

TEST(CarryTable, EqualsTheSearch) {
  const bool exhaustive = std::getenv("RESUMECHECK_EXHAUSTIVE") != nullptr;
  const std::uint64_t stride = exhaustive ? 1 : 4099, chunk = std::uint64_t{1} << 20;
  for (const Map& map : maps) {
    std::vector<float> quotients;
    for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += stride) {
      quotients.push_back(float_of(static_cast<std::uint32_t>(bits)));
      if (quotients.size() == chunk) {
        ASSERT_NO_FATAL_FAILURE(compare_table_with_search(map, quotients));
        quotients.clear();
      }
    }
    ASSERT_NO_FATAL_FAILURE(compare_table_with_search(map, quotients));
  }
}

void push_around(std::vector<float>& quotients, std::uint32_t bits, std::int64_t reach) {
  for (std::int64_t k = -reach; k <= reach; ++k)
    quotients.push_back(float_of(static_cast<std::uint32_t>(bits + static_cast<std::uint64_t>(k))));
}

std::vector<float> critical_quotients(const Map& map) {
  std::vector<float> quotients;
  for (std::uint64_t bucket = 0; bucket < std::uint64_t{1} << (32 - map.shift); ++bucket)
    push_around(quotients, static_cast<std::uint32_t>(bucket << map.shift), 2);
  for (std::size_t c = 0; c + 1 < map.codebook->size(); ++c) {
    const float low = (*map.codebook)[c], high = (*map.codebook)[c + 1];
    push_around(quotients, bits_of(low + (high - low) * 0.5F), 64);
    push_around(quotients, bits_of(low), 2);
  }
  return quotients;
}

TEST(CarryTable, EqualsTheSearchAroundThresholdsAndBucketEdges) {
  for (const Map& map : maps)
    ASSERT_NO_FATAL_FAILURE(compare_table_with_search(map, critical_quotients(map)));
}

// The search itself against the linear scan of the twin, where it matters.
TEST(Search, EqualsTheSlowTwin) {
  for (const Map& map : maps) {
    const std::vector<float> codebook(map.codebook->begin(), map.codebook->end());
    std::vector<float> quotients;
    for (std::size_t c = 0; c + 1 < codebook.size(); ++c)
      push_around(quotients, bits_of(codebook[c] + (codebook[c + 1] - codebook[c]) * 0.5F), 8);
    for (const std::uint32_t bits : {0x7f800000U, 0xff800000U, 0x7fc00000U, 0xffc00000U,
                                     0x7f800001U, 0x3f800001U, 0xbf800001U, 0x80000000U, 1U})
      quotients.push_back(float_of(bits));
    const std::vector<std::uint8_t> codes = codes_of(quotients, searched(map));
    for (std::size_t i = 0; i < quotients.size(); ++i)
      ASSERT_EQ(codes[i], slow_twin::code_of(quotients[i], codebook))
          << map.name << " map, bits 0x" << std::hex << bits_of(quotients[i]);
  }
}

TEST(CarryTable, IsRefusedWhereABucketWouldHoldTwoThresholds) {
  EXPECT_TRUE(carry_table(standard_codebook(Storage::map8, false).data(), 256, 20).empty());
  EXPECT_TRUE(carry_table(standard_codebook(Storage::map8, true).data(), 256, 21).empty());
}

TEST(CodeMap, AnyOtherCodebookIsSearched) {
  std::vector<float> other = standard_codebook(Storage::map8, true);
  EXPECT_NE(code_map_for(Storage::map8, other.data()).table, nullptr)
      << "an equal copy is the same codebook";
  other[3] = std::nextafterf(other[3], 0.0F);
  EXPECT_EQ(code_map_for(Storage::map8, other.data()).rule, CodeRule::search8);
  other = standard_codebook(Storage::map4, false);
  EXPECT_EQ(code_map_for(Storage::map4, other.data()).rule, CodeRule::table4);
  other[15] = 2.0F;
  EXPECT_EQ(code_map_for(Storage::map4, other.data()).rule, CodeRule::search4);
  EXPECT_EQ(code_map_for(Storage::e4m3, nullptr).rule, CodeRule::e4m3);
}

}  // namespace
}  // namespace resumecheck::kernels
