// Each switch is really thrown here, and restored, since a check that cannot see FTZ would pass
// everywhere.
#include "kernels/float_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfenv>
#include <stdexcept>
#include <string>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace resumecheck::kernels {
namespace {

std::string complaint() {
  try {
    check_float_environment();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(FloatEnvironment, IsRightInAnOrdinaryProcess) { EXPECT_EQ(complaint(), ""); }

TEST(FloatEnvironment, NamesAWrongRounding) {
  const int before = std::fegetround();
  for (const int rounding : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(rounding);
    const std::string said = complaint();
    std::fesetround(before);
    EXPECT_THAT(said, testing::HasSubstr("rounding is not to nearest even"));
  }
}

#if defined(__x86_64__)
std::string complaint_with(unsigned control_bit) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | control_bit);
  const std::string said = complaint();
  _mm_setcsr(before);
  return said;
}

TEST(FloatEnvironment, NamesFlushToZero) {
  EXPECT_THAT(complaint_with(0x8000), testing::HasSubstr("(FTZ)"));
}

TEST(FloatEnvironment, NamesDenormalsAreZero) {
  EXPECT_THAT(complaint_with(0x0040), testing::HasSubstr("(DAZ)"));
}
#endif

}  // namespace
}  // namespace resumecheck::kernels
