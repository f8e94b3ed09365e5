// What a hypothesis is asked about: one tensor or value that differs, and how much of it a mistake
// would explain.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/compare/diagnosis.h"
#include "harness/compare/element.h"

namespace resumecheck {

// One tensor (or value) that differs. differing: flat indices, ascending; where the dtypes differ,
// every element. Of a moment whose storage width differs, want and got are its codes and its values
// (or the reverse), and every element differs. Of a missing tensor of FP8 state there is no got,
// and every element differs.
struct Suspect {
  TensorKey key;
  enum class Of { tensor, width, missing } of = Of::tensor;
  const LogicalTensor* want = nullptr;
  const LogicalTensor* got = nullptr;
  std::vector<std::int64_t> differing;
  const Value* got_value = nullptr;  // of a value, and then no tensors

  bool is_value() const { return got_value != nullptr; }
  bool same_dtype() const { return got != nullptr && want->dtype == got->dtype; }
  std::int64_t count() const {
    return is_value() ? 1 : static_cast<std::int64_t>(differing.size());
  }
  std::uint64_t want_bits(std::int64_t i) const {
    return load_bits(want->bytes.data() + i * size_of(want->dtype), want->dtype);
  }
  std::uint64_t got_bits(std::int64_t i) const {
    return load_bits(got->bytes.data() + i * size_of(got->dtype), got->dtype);
  }
};

struct Explained {
  std::int64_t elements = 0;
  std::string detail;
};

// Nothing: the hypothesis says nothing about this suspect.
using Trial = std::function<std::optional<Explained>(const Suspect&, const Evidence&)>;

struct Hypothesis {
  const char* name;
  Trial trial;
  Suspect::Of of = Suspect::Of::tensor;  // tried on suspects of this kind, and on nothing else
};

template <typename Predict>  // flat index -> bits in got's dtype
std::int64_t count_predicted(const Suspect& suspect, const Predict& predict) {
  return std::count_if(suspect.differing.begin(), suspect.differing.end(),
                       [&](std::int64_t i) { return predict(i) == suspect.got_bits(i); });
}

inline const LogicalTensor* find(const LogicalState& state, const TensorKey& key) {
  const auto found = state.tensors.find(key);
  return found == state.tensors.end() ? nullptr : &found->second;
}

// A mistake that moves whole tensors about explains all of one or nothing of it: a single code that
// happens to be its neighbour's is no evidence.
template <typename Predict>  // flat index -> bits
std::optional<Explained> if_whole(const Suspect& suspect, const Predict& predict,
                                  const char* detail = "") {
  const std::int64_t count = element_count(suspect.want->shape);
  for (std::int64_t i = 0; i < count; ++i) {
    if (predict(i) != suspect.got_bits(i)) return Explained{0, ""};
  }
  return Explained{suspect.count(), detail};
}

// Every element is that of `distance` further on or back, and the ends meet.
inline std::optional<Explained> moved_by(const Suspect& suspect, std::int64_t distance) {
  const std::int64_t count = element_count(suspect.want->shape);
  if (distance <= 0 || distance >= count) return std::nullopt;
  const auto further = [&](std::int64_t i) { return suspect.want_bits((i + distance) % count); };
  const auto back = [&](std::int64_t i) {
    return suspect.want_bits((i + count - distance) % count);
  };
  const auto explained = if_whole(suspect, further, "each is the next one's");
  return explained->elements > 0 ? explained : if_whole(suspect, back, "each is the one's before");
}

}  // namespace resumecheck
