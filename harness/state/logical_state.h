// The mesh-free view of everything that decides the next step: name and part -> dtype, global
// shape, bytes. Two runs are the same run exactly when their logical states are the same bytes;
// nothing here is ever dequantised to compare.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/state/box.h"
#include "harness/state/dtype.h"

namespace resumecheck {

using Bytes = std::vector<std::byte>;
using Value =
    std::variant<bool, std::int64_t, double, std::string>;  // what is not a tensor: lr, betas, ...

std::string to_text(const Value& value);

struct TensorKey {
  std::string name;  // FQN of the parameter: "ffn.up"
  std::string part;  // "param", "moment1.codes", "moment1.scale", "moment1.codebook",
                     // "moment1.values", ..., "step"
  auto operator<=>(const TensorKey&) const = default;
};

std::string to_text(const TensorKey& key);  // "moment2.scale of ffn.up"

struct LogicalTensor {
  Dtype dtype = Dtype::f32;
  Shape shape;  // global
  std::int64_t block =
      0;        // elements a quantisation block; 0 where the tensor is not quantised state
  Bytes bytes;  // row-major, element_count(shape) * size_of(dtype)
};

struct LogicalState {
  std::int64_t step = 0;
  std::map<TensorKey, LogicalTensor> tensors;
  std::map<std::string, Value> values;
};

// The part a value belongs to: the text before its first "/" ("lr/0" -> "lr").
std::string value_part(std::string_view value_name);

// Does a selector from [compare] parts choose this part? A name selects itself and its children:
// "moment1" selects "moment1.codes" and "moment1.values"; "moment1.codes" selects only itself.
bool selects(std::string_view selector, std::string_view part);
bool selects(const std::vector<std::string>& selectors, std::string_view part);

}  // namespace resumecheck
