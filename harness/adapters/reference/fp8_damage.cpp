#include "harness/adapters/reference/fp8_damage.h"

#include <algorithm>
#include <string>

namespace resumecheck {
namespace {

// Rows of the tensor as seen from one column: [rows, columns] of a history, [columns] of a scale.
std::int64_t columns_of(const LogicalTensor& tensor) { return tensor.shape.back(); }

void shift_rows(LogicalTensor& history) {
  const auto row = static_cast<std::ptrdiff_t>(columns_of(history) * 4);
  std::rotate(history.bytes.begin(), history.bytes.begin() + row, history.bytes.end());
}

void swap_common_columns(LogicalTensor& one, LogicalTensor& two) {
  const std::int64_t common = std::min(columns_of(one), columns_of(two));
  const auto bytes = static_cast<std::ptrdiff_t>(common * 4);
  const std::int64_t rows = element_count(one.shape) / columns_of(one);
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto first = one.bytes.begin() + row * columns_of(one) * 4;
    std::swap_ranges(first, first + bytes, two.bytes.begin() + row * columns_of(two) * 4);
  }
}

void swap_directions(LogicalState& state) {
  const std::string forward = ".forward";
  for (auto& [key, tensor] : state.tensors) {
    if (!selects("fp8", key.part) || !key.part.ends_with(forward)) continue;
    const std::string part = key.part.substr(0, key.part.size() - forward.size()) + ".backward";
    const auto other = state.tensors.find({key.name, part});
    if (other != state.tensors.end()) swap_common_columns(tensor, other->second);
  }
}

void give_rank0s(LogicalState& state) {
  for (auto& [key, tensor] : state.tensors) {
    const std::size_t at = key.name.find("@rank");
    if (!selects("fp8", key.part) || at == std::string::npos) continue;
    tensor.bytes = state.tensors.at({key.name.substr(0, at) + "@rank0", key.part}).bytes;
  }
}

}  // namespace

void damage_fp8(LogicalState& state, const Defects& defects) {
  for (auto& [key, tensor] : state.tensors) {
    if (!selects("fp8.amax_history", key.part)) continue;
    if (defects.has(Defect::amax_history_reset)) {
      std::fill(tensor.bytes.begin(), tensor.bytes.end(), std::byte{0});
    }
    if (defects.has(Defect::amax_history_shifted_by_one)) shift_rows(tensor);
  }
  if (defects.has(Defect::forward_and_backward_swapped)) swap_directions(state);
  if (defects.has(Defect::rank0_extra_state_everywhere)) give_rank0s(state);
}

}  // namespace resumecheck
