// The codebooks are part of every saved state, so each entry is pinned down twice: by the slow
// twin's own derivation, and by a digest of what torchao makes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

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
       {&standard_codebook(Storage::map8, true), &standard_codebook(Storage::map8, false)}) {
    EXPECT_TRUE(std::is_sorted(codebook->begin(), codebook->end()));
    EXPECT_EQ(std::adjacent_find(codebook->begin(), codebook->end()), codebook->end())
        << "an entry stands twice, so one code can never be reached";
    EXPECT_EQ(codebook->back(), 1.0F);
  }
  EXPECT_NEAR(standard_codebook(Storage::map8, true).front(), -0.993F, 1e-3F);
  EXPECT_EQ(standard_codebook(Storage::map8, false).front(), 0.0F);
}

}  // namespace
}  // namespace resumecheck::kernels
