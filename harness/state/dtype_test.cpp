#include "harness/state/dtype.h"

#include <gtest/gtest.h>

#include <string>

namespace resumecheck {
namespace {

TEST(Dtype, NamesAndSizesAreThoseOfSafetensors) {
  const struct {
    const char* name;
    std::size_t bytes;
  } table[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
               {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},
               {"I32", 4},  {"F32", 4}, {"U64", 8}, {"I64", 8},     {"F64", 8}};
  for (const auto& [name, bytes] : table) {
    const auto dtype = parse_dtype(name);
    ASSERT_TRUE(dtype.has_value()) << name << " must be readable";
    EXPECT_EQ(name_of(*dtype), name);
    EXPECT_EQ(size_of(*dtype), bytes) << name;
  }
}

TEST(Dtype, NothingElseIsAccepted) {
  for (const char* text : {"", "f32", "F32 ", "float32", "F4", "F8", "C64"}) {
    EXPECT_FALSE(parse_dtype(text).has_value()) << "'" << text << "' is no dtype";
  }
}

}  // namespace
}  // namespace resumecheck
