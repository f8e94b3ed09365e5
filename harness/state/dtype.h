// Element types, spelled as safetensors spells them. A dtype is part of the state: two tensors with
// equal values and different dtypes are different states.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace resumecheck {

enum class Dtype : std::uint8_t {
  boolean,
  u8,
  i8,
  f8_e4m3,
  f8_e5m2,
  u16,
  i16,
  f16,
  bf16,
  u32,
  i32,
  f32,
  u64,
  i64,
  f64
};

std::size_t size_of(Dtype dtype);       // bytes an element
std::string_view name_of(Dtype dtype);  // "BOOL", "U8", "F8_E4M3", "BF16", "F32", ...
std::optional<Dtype> parse_dtype(
    std::string_view text);  // the inverse of name_of; nothing else is accepted

}  // namespace resumecheck
