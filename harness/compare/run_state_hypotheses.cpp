#include "harness/compare/run_state_hypotheses.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <optional>

namespace resumecheck {
namespace {

const Value* value_in(const LogicalState& state, const std::string& name) {
  const auto found = state.values.find(name);
  return found == state.values.end() ? nullptr : &found->second;
}

bool is_value(const Suspect& suspect, std::string_view name) {
  return suspect.is_value() && suspect.key.name == name;
}

Explained all_if(bool explained, const Suspect& suspect, const std::string& detail = "") {
  return explained ? Explained{suspect.count(), detail} : Explained{0, ""};
}

// ---- values

Trial schedule_off(std::int64_t by) {
  return [by](const Suspect& suspect, const Evidence& evidence) -> std::optional<Explained> {
    if (!is_value(suspect, "scheduler/steps")) return std::nullopt;
    const auto* want = std::get_if<std::int64_t>(value_in(evidence.want->state, suspect.key.name));
    const auto* got = std::get_if<std::int64_t>(suspect.got_value);
    return all_if(want != nullptr && got != nullptr && *got == *want + by, suspect);
  };
}

std::optional<Explained> loss_scale_reset(const Suspect& suspect, const Evidence& evidence) {
  if (!is_value(suspect, "loss_scaler/scale") || evidence.fresh == nullptr) return std::nullopt;
  const Value* fresh = value_in(*evidence.fresh, suspect.key.name);
  return all_if(fresh != nullptr && *fresh == *suspect.got_value, suspect, "as in a fresh run");
}

std::optional<Explained> growth_tracker_reset(const Suspect& suspect, const Evidence&) {
  if (!is_value(suspect, "loss_scaler/growth_tracker")) return std::nullopt;
  return all_if(*suspect.got_value == Value(std::int64_t{0}), suspect);
}

// "lr/1" and "param_group/1.weight_decay", apart from the number.
struct OfGroup {
  std::string before, behind;
  std::int64_t group = 0;

  std::string name(std::int64_t of) const { return fmt::format("{}{}{}", before, of, behind); }
};

std::optional<OfGroup> of_group(const Suspect& suspect) {
  const std::string& name = suspect.key.name;
  const std::string part = value_part(name);
  if (!suspect.is_value() || (part != "lr" && part != "param_group")) return std::nullopt;
  const std::size_t begin = name.find('/') + 1;
  const std::size_t end = std::min(name.find_first_not_of("0123456789", begin), name.size());
  if (begin == 0 || end == begin || end - begin > 9) return std::nullopt;
  return OfGroup{name.substr(0, begin), name.substr(end), std::stoll(name.substr(begin))};
}

std::optional<Explained> groups_swapped(const Suspect& suspect, const Evidence& evidence) {
  const auto at = of_group(suspect);
  if (!at) return std::nullopt;
  const Value* own = value_in(evidence.want->state, suspect.key.name);
  for (std::int64_t other = 0;; ++other) {
    const Value* want = value_in(evidence.want->state, at->name(other));
    const Value* got = value_in(evidence.got->state, at->name(other));
    if (want == nullptr || got == nullptr || own == nullptr) return Explained{0, ""};
    if (other == at->group || !(*want == *suspect.got_value) || !(*got == *own)) continue;
    return all_if(true, suspect, fmt::format("{} and {}", at->group, other));
  }
}

std::optional<Explained> lr_of_group_0(const Suspect& suspect, const Evidence& evidence) {
  const auto at = of_group(suspect);
  if (!at || at->before != "lr/" || at->group == 0) return std::nullopt;
  const Value* want = value_in(evidence.want->state, "lr/0");
  const Value* got = value_in(evidence.got->state, "lr/0");
  return all_if(want != nullptr && got != nullptr && *want == *got && *want == *suspect.got_value,
                suspect);
}

// ---- of samples

bool is_tensor(const Suspect& suspect, std::string_view part) {
  return suspect.key.part == part && !suspect.is_value() && suspect.same_dtype() &&
         suspect.want->dtype == Dtype::i64 && !suspect.want->shape.empty();
}

// Every sample by the same number, forwards or back.
Trial position_off(bool behind) {
  return [behind](const Suspect& suspect, const Evidence&) -> std::optional<Explained> {
    if (!is_tensor(suspect, "data_position")) return std::nullopt;
    const std::uint64_t by = suspect.want_bits(0) - suspect.got_bits(0);
    const auto ahead = static_cast<std::int64_t>(by) < 0;
    if (by == 0 || ahead == behind) return Explained{0, ""};
    const std::int64_t samples = std::abs(static_cast<std::int64_t>(by));
    return if_whole(
        suspect, [&](std::int64_t i) { return suspect.want_bits(i) - by; },
        behind ? (samples == 1 ? "by one sample" : "samples are seen twice")
               : (samples == 1 ? "by one sample" : "samples are left out"));
  };
}

bool is_generators(const Suspect& suspect) {
  return is_tensor(suspect, "rng") && suspect.want->shape.size() == 2;
}

std::optional<Explained> generator_of_sample_0(const Suspect& suspect, const Evidence&) {
  if (!is_generators(suspect)) return std::nullopt;
  const std::int64_t width = suspect.want->shape[1];
  return if_whole(suspect, [&](std::int64_t i) { return suspect.want_bits(i % width); });
}

// Where the ranks of the resumed run have several samples, and rank 0 not all of them.
std::optional<Explained> generators_of_rank_0(const Suspect& suspect, const Evidence& evidence) {
  const auto holders = evidence.got->holders.find(suspect.key);
  if (!is_generators(suspect) || holders == evidence.got->holders.end()) return std::nullopt;
  const std::int64_t width = suspect.want->shape[1];
  const Box& first = holders->second.front().box;
  if (first.sizes()[0] == suspect.want->shape[0]) return std::nullopt;
  std::vector<std::int64_t> source(static_cast<std::size_t>(suspect.want->shape[0]), -1);
  for (const HeldBox& held : holders->second) {
    const std::int64_t begin = held.box.offsets()[0];
    for (std::int64_t row = 0; row < held.box.sizes()[0]; ++row) {
      source[static_cast<std::size_t>(begin + row)] = first.offsets()[0] + row % first.sizes()[0];
    }
  }
  return if_whole(suspect, [&](std::int64_t i) {
    const std::int64_t row = source[static_cast<std::size_t>(i / width)];
    return suspect.want_bits(row * width + i % width);
  });
}

std::optional<Explained> generators_restarted(const Suspect& suspect, const Evidence&) {
  if (!is_generators(suspect) || suspect.want->shape[1] != 2) return std::nullopt;
  return if_whole(
      suspect, [&](std::int64_t i) { return i % 2 == 0 ? suspect.want_bits(i) : 0; },
      "the keys are right");
}

// ---- of parameters

bool same_tensor(const LogicalState& one, const LogicalState& two, const TensorKey& key) {
  const LogicalTensor* first = find(one, key);
  const LogicalTensor* second = find(two, key);
  return first != nullptr && second != nullptr && first->bytes == second->bytes;
}

// Its optimizer took no step before the save, and another parameter's did.
bool stood_still(const std::string& name, const Evidence& evidence) {
  if (evidence.one_step_before == nullptr) return false;
  const LogicalState& before = evidence.one_step_before->state;
  const LogicalState& now = evidence.want->state;
  const auto& tensors = now.tensors;
  return same_tensor(before, now, {name, "step"}) &&
         std::any_of(tensors.begin(), tensors.end(), [&](const auto& entry) {
           return entry.first.part == "step" && !same_tensor(before, now, entry.first);
         });
}

std::optional<Explained> frozen_moments_dropped(const Suspect& suspect, const Evidence& evidence) {
  if (!suspect.key.part.starts_with("moment") || !suspect.same_dtype()) return std::nullopt;
  if (!stood_still(suspect.key.name, evidence)) return std::nullopt;
  return if_whole(
      suspect, [](std::int64_t) { return std::uint64_t{0}; }, "all zero, of what was frozen");
}

double fp32_of(const LogicalTensor& tensor, std::int64_t i) {
  return value_of(load_bits(tensor.bytes.data() + i * size_of(tensor.dtype), tensor.dtype),
                  tensor.dtype);
}

bool same_moments(const std::string& name, const Evidence& evidence) {
  const LogicalState& want = evidence.want->state;
  return std::all_of(want.tensors.begin(), want.tensors.end(), [&](const auto& entry) {
    const TensorKey& key = entry.first;
    return key.name != name || (!key.part.starts_with("moment") && key.part != "step") ||
           same_tensor(want, evidence.got->state, key);
  });
}

// Decay takes the same share of every weight, beside the same update: what differs is in proportion
// to the weight before the step, but for the last bits.
std::optional<Explained> decay_of_another_strength(const Suspect& suspect,
                                                   const Evidence& evidence) {
  const bool trained = suspect.key.part == "param" || suspect.key.part == "master";
  if (!trained || !suspect.same_dtype() || suspect.want->dtype != Dtype::f32) return std::nullopt;
  if (evidence.one_step_before == nullptr) return std::nullopt;
  const LogicalTensor* before = find(evidence.one_step_before->state, suspect.key);
  if (before == nullptr || before->shape != suspect.want->shape || before->dtype != Dtype::f32 ||
      !same_moments(suspect.key.name, evidence)) {
    return std::nullopt;
  }
  std::int64_t largest = suspect.differing.front();
  for (const std::int64_t i : suspect.differing) {
    if (std::fabs(fp32_of(*before, i)) > std::fabs(fp32_of(*before, largest))) largest = i;
  }
  const auto moved = [&](std::int64_t i) {
    return fp32_of(*suspect.want, i) - fp32_of(*suspect.got, i);
  };
  const double share = moved(largest) / fp32_of(*before, largest);
  constexpr double last_bits = 8.0 / (1 << 24);
  if (!std::isfinite(share) || std::fabs(share) < 8 * last_bits) return Explained{0, ""};
  const std::int64_t count =
      std::count_if(suspect.differing.begin(), suspect.differing.end(), [&](std::int64_t i) {
        const double weight = fp32_of(*before, i);
        const double size = std::max(std::fabs(weight), std::fabs(fp32_of(*suspect.want, i)));
        return std::fabs(moved(i) - share * weight) <= last_bits * size;
      });
  return Explained{count, fmt::format("lr times decay is off by about {:.3g}", share)};
}

}  // namespace

std::vector<Hypothesis> run_state_hypotheses() {
  return {
      {"schedule one step behind", schedule_off(-1)},
      {"schedule one step ahead", schedule_off(1)},
      {"loss scale reset", loss_scale_reset},
      {"growth tracker reset", growth_tracker_reset},
      {"groups swapped", groups_swapped},
      {"lr of group 0 everywhere", lr_of_group_0},
      {"data position behind", position_off(true)},
      {"data position ahead", position_off(false)},
      {"generator of sample 0 everywhere", generator_of_sample_0},
      {"generators of rank 0 everywhere", generators_of_rank_0},
      {"generators restarted", generators_restarted},
      {"moments of frozen parameters dropped", frozen_moments_dropped},
      {"weight decay of another strength", decay_of_another_strength},
  };
}

// Each is smaller than the whole, and together they are all of it; what several ranks hold counts
// several times.
bool are_norms_of_shards(const std::vector<double>& of_ranks, double whole) {
  double squares = 0;
  bool smaller = !of_ranks.empty();
  for (const double norm : of_ranks) {
    squares += norm * norm;
    smaller = smaller && norm <= whole;
  }
  return smaller && squares >= whole * whole * (1 - 1e-4);
}

}  // namespace resumecheck
