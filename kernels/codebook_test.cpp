// The codebooks are part of every saved state, so each entry is pinned down twice: by the slow
// twin's own derivation, and by a digest of what torchao makes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "kernels/adamw.h"
#include "kernels/slow_twin.h"

namespace resumecheck::kernels {
namespace {

std::uint64_t fnv1a_64(const std::vector<float>& codebook) {
  std::vector<unsigned char> bytes(codebook.size() * sizeof(float));
  std::memcpy(bytes.data(), codebook.data(), bytes.size());
  std::uint64_t digest = 0xcbf29ce484222325U;
  for (const unsigned char byte : bytes) digest = (digest ^ byte) * 0x100000001b3U;
  return digest;
}

// Origin: torchao 0.12.0's create_dynamic_map(signed) on torch 2.8.0, CPU capability AVX512, as
// fp32 little-endian bytes; FNV-1a, 64 bits. torchao 0.18.0 on torch 2.15.0 gives the same.
TEST(Codebook, EqualsWhatTorchaoMakes) {
  EXPECT_EQ(fnv1a_64(standard_codebook(Storage::map8, true)), 0xd677f22a96665bc4U)
      << "the signed codebook changed: is the fused multiply-add of linspace_point still there?";
  EXPECT_EQ(fnv1a_64(standard_codebook(Storage::map8, false)), 0x43811b16730a873eU)
      << "the unsigned codebook changed: is the fused multiply-add of linspace_point still there?";
}

// Origin: torchao 0.12.0's create_dynamic_map(True, 3, 4) and linspace(0, 1, 17)[1:] on
// torch 2.8.0, as above; torchao 0.18.0 on torch 2.15.0 gives the same.
TEST(Codebook, Of16EntriesEqualsWhatTorchaoMakes) {
  EXPECT_EQ(fnv1a_64(standard_codebook(Storage::map4, true)), 0x7a27e9a5b127a494U);
  EXPECT_EQ(fnv1a_64(standard_codebook(Storage::map4, false)), 0x5f6b2139429bb14fU);
}

// Origin: torch 2.8.0's and 2.15.0's float8_e4m3fn to fp32, all codes but the two NaNs.
TEST(Codebook, OfE4m3IsWhatTorchReadsFromACode) {
  std::vector<float> values = standard_codebook(Storage::e4m3, true);
  ASSERT_EQ(values.size(), 256U);
  EXPECT_TRUE(std::isnan(values[0x7f]));
  EXPECT_TRUE(std::isnan(values[0xff]));
  EXPECT_EQ(&standard_codebook(Storage::e4m3, true), &standard_codebook(Storage::e4m3, false));
  for (std::size_t code = 0; code < 256; ++code) {
    if (code % 128 == 0x7f) continue;
    EXPECT_EQ(values[code], slow_twin::float8_value(static_cast<std::uint8_t>(code)));
  }
  values.erase(values.begin() + 0xff);
  values.erase(values.begin() + 0x7f);
  EXPECT_EQ(fnv1a_64(values), 0x9d09ddc37a47fa25U);
}

TEST(Codebook, Of16EntriesEqualsTheSlowTwins) {
  for (const bool is_signed : {true, false})
    EXPECT_EQ(standard_codebook(Storage::map4, is_signed),
              slow_twin::codebook(is_signed, slow_twin::Kind::entry_of_16));
}

TEST(Nibbles, TheFirstOfAPairIsTheHighOne) {
  const std::uint8_t codes[] = {1, 2, 15, 0, 9};
  EXPECT_EQ(pack_nibbles(codes, 5), (std::vector<std::uint8_t>{0x12, 0xf0, 0x90}));
  EXPECT_EQ(unpack_nibbles({0x12, 0xf0, 0x90}, 5), (std::vector<std::uint8_t>{1, 2, 15, 0, 9}));
  EXPECT_EQ(pack_nibbles(codes, 4), (std::vector<std::uint8_t>{0x12, 0xf0}));
  EXPECT_TRUE(pack_nibbles(nullptr, 0).empty());
  EXPECT_TRUE(unpack_nibbles({}, 0).empty());
}

TEST(Nibbles, ThatDoNotFitAreRefused) {
  const std::uint8_t codes[] = {1, 16};
  EXPECT_THROW(pack_nibbles(codes, 2), std::invalid_argument) << "would spill into its neighbour";
  EXPECT_THROW(unpack_nibbles({0x12, 0x34}, 5), std::invalid_argument);
  EXPECT_THROW(unpack_nibbles({0x12, 0x34}, 2), std::invalid_argument);
  EXPECT_THROW(unpack_nibbles({}, -1), std::invalid_argument);
}

TEST(Codebook, EqualsTheSlowTwins) {
  const std::vector<float> with_negatives = slow_twin::codebook(true);
  const std::vector<float> without = slow_twin::codebook(false);
  ASSERT_EQ(with_negatives.size(), 256U);
  ASSERT_EQ(without.size(), 256U);
  EXPECT_EQ(std::memcmp(with_negatives.data(), standard_codebook(Storage::map8, true).data(),
                        256 * sizeof(float)),
            0);
  EXPECT_EQ(std::memcmp(without.data(), standard_codebook(Storage::map8, false).data(),
                        256 * sizeof(float)),
            0);
}

TEST(Codebook, IsAscendingFromAlmostMinusOneToOne) {
  for (const std::vector<float>* codebook :
       {&standard_codebook(Storage::map8, true), &standard_codebook(Storage::map8, false),
        &standard_codebook(Storage::map4, true), &standard_codebook(Storage::map4, false)}) {
    EXPECT_TRUE(std::is_sorted(codebook->begin(), codebook->end()));
    EXPECT_EQ(std::adjacent_find(codebook->begin(), codebook->end()), codebook->end())
        << "an entry stands twice, so one code can never be reached";
    EXPECT_EQ(codebook->back(), 1.0F);
  }
  EXPECT_NEAR(standard_codebook(Storage::map8, true).front(), -0.993F, 1e-3F);
  EXPECT_EQ(standard_codebook(Storage::map8, false).front(), 0.0F);
  EXPECT_EQ(standard_codebook(Storage::map4, false).front(), 0.0625F) << "it has no zero";
}

}  // namespace
}  // namespace resumecheck::kernels
