// Every cast to 8 bits against an obvious one, the nearest of all values there are, and against
// what the libraries make that users have. A code that is wrong for one float in a million survives
// every training run and every golden.
#include "kernels/float8.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/float_samples.h"
#include "kernels/slow_model_twin.h"
#include "kernels/slow_twin.h"

namespace resumecheck::kernels {
namespace {

std::uint64_t fnv1a_64(const std::vector<std::uint8_t>& bytes) {
  std::uint64_t digest = 0xcbf29ce484222325U;
  for (const unsigned char byte : bytes) digest = (digest ^ byte) * 0x100000001b3U;
  return digest;
}

// What a Transformer Engine tensor uses, and the cast of an optimizer's moment.
struct SaturatingE4m3 {
  static constexpr bool is_e5m2 = false;
  static constexpr int largest = 0x7e;
  static std::uint8_t code(float value) { return float8_code<E4m3, Saturate>(value); }
  static std::uint8_t nearest(float value) { return slow_twin::saturating_float8(value, false); }
  static float value(std::uint8_t code) { return float8_value<E4m3>(code); }
};
struct SaturatingE5m2 {
  static constexpr bool is_e5m2 = true;
  static constexpr int largest = 0x7b;
  static std::uint8_t code(float value) { return float8_code<E5m2, Saturate>(value); }
  static std::uint8_t nearest(float value) { return slow_twin::saturating_float8(value, true); }
  static float value(std::uint8_t code) { return float8_value<E5m2>(code); }
};
struct MomentE4m3 {
  static constexpr bool is_e5m2 = false;
  static constexpr int largest = 0x7e;
  static std::uint8_t code(float value) { return float8_code<E4m3, NanBeyond>(value); }
  static std::uint8_t nearest(float value) { return slow_twin::float8_code(value); }
  static float value(std::uint8_t code) { return float8_value<E4m3>(code); }
};

template <class Cast>
class Float8 : public testing::Test {};
using Casts = testing::Types<SaturatingE4m3, SaturatingE5m2, MomentE4m3>;
struct CastNames {
  template <class Cast>
  static const char* GetName(int i) {
    return i == 0 ? "SaturatingE4m3" : i == 1 ? "SaturatingE5m2" : "MomentE4m3";
  }
};
TYPED_TEST_SUITE(Float8, Casts, CastNames);

TYPED_TEST(Float8, CodeIsTheNearestForEveryBf16) {
  for (const float value : all_bf16())
    ASSERT_EQ(TypeParam::code(value), TypeParam::nearest(value))
        << "bits 0x" << std::hex << bits_of(value);
}

TYPED_TEST(Float8, CodeIsTheNearestForASampleOfAllFloats) {
  const std::vector<float> values = every_4099th_float();
  for (std::size_t i = 0; i < values.size(); i += 8)
    ASSERT_EQ(TypeParam::code(values[i]), TypeParam::nearest(values[i]))
        << "bits 0x" << std::hex << bits_of(values[i]);
}

TYPED_TEST(Float8, CodeIsTheNearestAroundEveryTie) {
  for (int code = 0; code <= TypeParam::largest; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const double low = slow_twin::float8_meaning(byte, TypeParam::is_e5m2);
    const double below = code > 0 ? slow_twin::float8_meaning(static_cast<std::uint8_t>(code - 1),
                                                              TypeParam::is_e5m2)
                                  : -low;
    // The largest has no neighbour above: its gap goes on.
    const double high =
        code < TypeParam::largest
            ? slow_twin::float8_meaning(static_cast<std::uint8_t>(code + 1), TypeParam::is_e5m2)
            : low + (low - below);
    for (const double at : {low, (low + high) / 2}) {
      const std::uint32_t middle = bits_of(static_cast<float>(at));
      for (std::uint32_t bits = middle < 3 ? 0 : middle - 3; bits <= middle + 3; ++bits)
        for (const std::uint32_t sign : {0U, 0x80000000U})
          ASSERT_EQ(TypeParam::code(float_of(bits | sign)),
                    TypeParam::nearest(float_of(bits | sign)))
              << "bits 0x" << std::hex << (bits | sign);
    }
  }
}

TYPED_TEST(Float8, ValueIsWhatTheCodeMeansAndItsCodeAgain) {
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const float value = TypeParam::value(byte);
    ASSERT_EQ(bits_of(value), bits_of(slow_twin::float8_meaning(byte, TypeParam::is_e5m2))) << code;
    if (std::isfinite(value)) {
      ASSERT_EQ(TypeParam::code(value), byte);
    }
  }
}

TEST(Float8Overflow, IsTheLargestCodeOrANaN) {
  const float beyond = std::nextafterf(464.0F, 1e3F);
  EXPECT_EQ(MomentE4m3::code(464.0F), 0x7e) << "a tie, and 448 is even";
  EXPECT_EQ(MomentE4m3::code(beyond), 0x7f);
  EXPECT_EQ(MomentE4m3::code(INFINITY), 0x7f);
  EXPECT_EQ(MomentE4m3::code(-INFINITY), 0xff);
  EXPECT_EQ(SaturatingE4m3::code(beyond), 0x7e);
  EXPECT_EQ(SaturatingE4m3::code(-1e30F), 0xfe);
  EXPECT_EQ(SaturatingE4m3::code(INFINITY), 0x7e);
  EXPECT_EQ(SaturatingE5m2::code(61440.0F), 0x7b) << "the tie with what would be infinity";
  EXPECT_EQ(SaturatingE5m2::code(INFINITY), 0x7b);
  EXPECT_EQ(SaturatingE5m2::code(-INFINITY), 0xfb);
}

TEST(Float8NaN, HasNoSignAndNoPayload) {
  for (const std::uint32_t bits : {0x7fc00000U, 0xffc00001U, 0x7f800001U, 0xffffffffU}) {
    EXPECT_EQ(MomentE4m3::code(float_of(bits)), 0x7f);
    EXPECT_EQ(SaturatingE4m3::code(float_of(bits)), 0x7f);
    EXPECT_EQ(SaturatingE5m2::code(float_of(bits)), 0x7e);
  }
  EXPECT_EQ(SaturatingE4m3::code(-0.0F), 0x80);
  EXPECT_EQ(SaturatingE5m2::code(-0.0F), 0x80);
}

template <class Cast>
std::vector<std::uint8_t> codes_of(const std::vector<float>& values, float up_to) {
  std::vector<std::uint8_t> codes;
  for (const float value : values)
    if (std::fabs(value) <= up_to) codes.push_back(Cast::code(value));
  return codes;
}

// FNV-1a of the codes in the order of the bits. Origin of the first three pairs: ml_dtypes 0.6.0's
// float8_e4m3fn and float8_e5m2, up to the last value that its cast keeps finite; of e4m3 the same
// codes come from torch.Tensor.to(torch.float8_e4m3fn) of torch 2.8.0 and 2.15.0, which differ
// beyond 464 (a NaN in 2.8.0, 448 in 2.15.0), where no block of moments reaches.
TEST(Float8Code, EqualsWhatMlDtypesAndTorchMake) {
  const float last_e5m2 = std::nextafterf(61440.0F, 0.0F);
  EXPECT_EQ(fnv1a_64(codes_of<MomentE4m3>(all_bf16(), 464)), 0x2f6d0a49ddf9c5e3U);
  EXPECT_EQ(fnv1a_64(codes_of<MomentE4m3>(every_4099th_float(), 464)), 0xc8f58d444ddbf548U);
  EXPECT_EQ(fnv1a_64(codes_of<SaturatingE4m3>(all_bf16(), 464)), 0x2f6d0a49ddf9c5e3U);
  EXPECT_EQ(fnv1a_64(codes_of<SaturatingE4m3>(every_4099th_float(), 464)), 0xc8f58d444ddbf548U);
  EXPECT_EQ(fnv1a_64(codes_of<SaturatingE5m2>(all_bf16(), last_e5m2)), 0xa52a85ecfb78b425U);
  EXPECT_EQ(fnv1a_64(codes_of<SaturatingE5m2>(every_4099th_float(), last_e5m2)),
            0x0f7512a891a47680U);
}

template <class Cast>
std::vector<std::uint8_t> codes_with_nan(const std::vector<float>& values, std::uint8_t nan) {
  std::vector<std::uint8_t> codes;
  codes.reserve(values.size());
  for (const float value : values) codes.push_back(std::isnan(value) ? nan : Cast::code(value));
  return codes;
}

// Origin: __nv_cvt_float_to_fp8(value, __NV_SATFINITE, ...) on the host, cuda_fp8.h of CUDA 13.0:
// overflow and infinities too. Its NaN of e5m2 is 0x7f, the one code that differs from ours.
TEST(Float8Code, EqualsWhatCudaMakes) {
  EXPECT_EQ(fnv1a_64(codes_with_nan<SaturatingE4m3>(all_bf16(), 0x7f)), 0xd8b2feb674a31125U);
  EXPECT_EQ(fnv1a_64(codes_with_nan<SaturatingE4m3>(every_4099th_float(), 0x7f)),
            0x7c8b8a167cffadabU);
  EXPECT_EQ(fnv1a_64(codes_with_nan<SaturatingE5m2>(all_bf16(), 0x7f)), 0x22c10a2b6f34bb85U);
  EXPECT_EQ(fnv1a_64(codes_with_nan<SaturatingE5m2>(every_4099th_float(), 0x7f)),
            0x14d6619ee7c66545U);
}

template <class Cast>
std::vector<std::uint8_t> bytes_of_all_values() {
  std::vector<std::uint8_t> bytes;
  for (int code = 0; code < 256; ++code) {
    const std::uint32_t bits = bits_of(Cast::value(static_cast<std::uint8_t>(code)));
    for (int byte = 0; byte < 4; ++byte)
      bytes.push_back(static_cast<std::uint8_t>(bits >> (8 * byte)));
  }
  return bytes;
}

// Origin: ml_dtypes 0.6.0, widened to fp32, every NaN 0x7fc00000.
TEST(Float8Value, EqualsWhatMlDtypesMakes) {
  EXPECT_EQ(fnv1a_64(bytes_of_all_values<SaturatingE4m3>()), 0xdad1d9c50f749ca5U);
  EXPECT_EQ(fnv1a_64(bytes_of_all_values<SaturatingE5m2>()), 0x6c1e56b6fb09c905U);
}

}  // namespace
}  // namespace resumecheck::kernels
