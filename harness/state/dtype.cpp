#include "harness/state/dtype.h"

#include <array>

namespace resumecheck {
namespace {

struct Description {
  Dtype dtype;
  std::string_view name;
  std::size_t bytes;
};

// In the order of the enum, which indexes it.
constexpr std::array<Description, 15> kDescriptions = {{
    {Dtype::boolean, "BOOL", 1},
    {Dtype::u8, "U8", 1},
    {Dtype::i8, "I8", 1},
    {Dtype::f8_e4m3, "F8_E4M3", 1},
    {Dtype::f8_e5m2, "F8_E5M2", 1},
    {Dtype::u16, "U16", 2},
    {Dtype::i16, "I16", 2},
    {Dtype::f16, "F16", 2},
    {Dtype::bf16, "BF16", 2},
    {Dtype::u32, "U32", 4},
    {Dtype::i32, "I32", 4},
    {Dtype::f32, "F32", 4},
    {Dtype::u64, "U64", 8},
    {Dtype::i64, "I64", 8},
    {Dtype::f64, "F64", 8},
}};

constexpr bool in_enum_order() {
  for (std::size_t i = 0; i < kDescriptions.size(); ++i) {
    if (static_cast<std::size_t>(kDescriptions[i].dtype) != i) return false;
  }
  return true;
}
static_assert(in_enum_order());

const Description& describe(Dtype dtype) {
  return kDescriptions.at(static_cast<std::size_t>(dtype));
}

}  // namespace

std::size_t size_of(Dtype dtype) { return describe(dtype).bytes; }

std::string_view name_of(Dtype dtype) { return describe(dtype).name; }

std::optional<Dtype> parse_dtype(std::string_view text) {
  for (const Description& description : kDescriptions) {
    if (description.name == text) return description.dtype;
  }
  return std::nullopt;
}

}  // namespace resumecheck
