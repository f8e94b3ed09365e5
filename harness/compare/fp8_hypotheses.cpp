#include "harness/compare/fp8_hypotheses.h"

#include <fmt/format.h>

namespace resumecheck {
namespace {

bool is_fp8(const Suspect& suspect, std::string_view selector = "fp8") {
  return selects(selector, suspect.key.part) &&
         (suspect.of == Suspect::Of::missing || suspect.same_dtype());
}

// "fp8.scale.forward" -> "fp8.amax_history.forward"
std::string part_beside(const std::string& part, const std::string& kind) {
  return "fp8." + kind + part.substr(part.rfind('.'));
}

bool equal(const LogicalState& one, const LogicalState& two, const TensorKey& key) {
  const LogicalTensor* first = find(one, key);
  const LogicalTensor* second = find(two, key);
  return first != nullptr && second != nullptr && first->bytes == second->bytes;
}

bool has_fp8_of(const LogicalState& state, const std::string& name) {
  return std::any_of(state.tensors.begin(), state.tensors.end(), [&](const auto& entry) {
    return entry.first.name == name && selects("fp8", entry.first.part);
  });
}

// All of the suspect or nothing of it.
Explained all_if(bool explained, const Suspect& suspect, const char* detail = "") {
  return explained ? Explained{suspect.count(), detail} : Explained{0, ""};
}

std::optional<Explained> extra_state_empty(const Suspect& suspect, const Evidence& evidence) {
  if (!is_fp8(suspect)) return std::nullopt;
  return all_if(!has_fp8_of(evidence.got->state, suspect.key.name), suspect, "the module has none");
}

std::optional<Explained> extra_state_dropped(const Suspect& suspect, const Evidence& evidence) {
  if (!is_fp8(suspect) || evidence.fresh == nullptr) return std::nullopt;
  for (const auto& [key, tensor] : evidence.fresh->tensors) {
    if (key.name != suspect.key.name || !selects("fp8", key.part)) continue;
    if (!equal(evidence.got->state, *evidence.fresh, key)) return Explained{0, ""};
  }
  return all_if(equal(evidence.got->state, *evidence.fresh, suspect.key), suspect,
                "all of the module is as in a fresh one");
}

std::optional<Explained> amax_history_reset(const Suspect& suspect, const Evidence& evidence) {
  if (!is_fp8(suspect, "fp8.amax_history")) return std::nullopt;
  const TensorKey scale = {suspect.key.name, part_beside(suspect.key.part, "scale")};
  if (!equal(evidence.want->state, evidence.got->state, scale)) return Explained{0, ""};
  return if_whole(
      suspect, [](std::int64_t) { return std::uint64_t{0}; }, "all zero beside the right scale");
}

std::optional<Explained> amax_history_one_row_off(const Suspect& suspect, const Evidence&) {
  if (!is_fp8(suspect, "fp8.amax_history") || suspect.want->shape.size() != 2) return std::nullopt;
  return moved_by(suspect, suspect.want->shape[1]);
}

std::optional<Explained> scale_inv_stale(const Suspect& suspect, const Evidence& evidence) {
  if (!is_fp8(suspect, "fp8.scale_inv") || evidence.one_step_before == nullptr) return std::nullopt;
  const TensorKey scale = {suspect.key.name, part_beside(suspect.key.part, "scale")};
  if (!equal(evidence.want->state, evidence.got->state, scale)) return Explained{0, ""};
  return all_if(equal(evidence.got->state, evidence.one_step_before->state, suspect.key), suspect,
                "one step behind the scale");
}

// Row by row: the columns that both directions have are the other's, and the rest are right.
std::optional<Explained> directions_swapped(const Suspect& suspect, const Evidence& evidence) {
  if (!is_fp8(suspect)) return std::nullopt;
  const std::string& part = suspect.key.part;
  const bool forward = part.ends_with(".forward");
  const std::string kind = part.substr(0, part.rfind('.'));
  const LogicalTensor* other =
      find(evidence.want->state, {suspect.key.name, kind + (forward ? ".backward" : ".forward")});
  if (other == nullptr || other->dtype != suspect.want->dtype || other->shape.empty() ||
      other->shape.size() != suspect.want->shape.size()) {
    return std::nullopt;
  }
  const std::int64_t columns = suspect.want->shape.back();
  const std::int64_t others = other->shape.back();
  if (element_count(suspect.want->shape) / columns != element_count(other->shape) / others) {
    return std::nullopt;
  }
  return if_whole(
      suspect,
      [&](std::int64_t i) {
        if (i % columns >= others) return suspect.want_bits(i);
        const std::int64_t there = i / columns * others + i % columns;
        return load_bits(other->bytes.data() + there * size_of(other->dtype), other->dtype);
      },
      "each has the other's");
}

std::optional<Explained> rank0s_extra_state(const Suspect& suspect, const Evidence& evidence) {
  const std::size_t at = suspect.key.name.find("@rank");
  if (!is_fp8(suspect) || at == std::string::npos) return std::nullopt;
  const LogicalTensor* first =
      find(evidence.want->state, {suspect.key.name.substr(0, at) + "@rank0", suspect.key.part});
  if (first == nullptr) return std::nullopt;
  return all_if(first->bytes == suspect.got->bytes, suspect, "every rank has rank 0's");
}

}  // namespace

std::vector<Hypothesis> fp8_hypotheses() {
  return {
      {"extra state empty", extra_state_empty, Suspect::Of::missing},
      {"extra state dropped", extra_state_dropped},
      {"amax history reset", amax_history_reset},
      {"amax history one row off", amax_history_one_row_off},
      {"scale_inv stale", scale_inv_stale},
      {"forward and backward swapped", directions_swapped},
      {"rank 0's extra state", rank0s_extra_state},
  };
}

}  // namespace resumecheck
