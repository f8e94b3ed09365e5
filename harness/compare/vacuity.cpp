#include "harness/compare/vacuity.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "harness/compare/element.h"

namespace resumecheck {
namespace {

bool has_part(const AssembledState* assembled, const std::string& selector) {
  if (assembled == nullptr) return false;
  const auto& [step, tensors, values] = assembled->state;
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const auto& entry) { return selects(selector, entry.first.part); }) ||
         std::any_of(values.begin(), values.end(),
                     [&](const auto& entry) { return selects(selector, value_part(entry.first)); });
}

bool all_zero(const Bytes& bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](std::byte byte) { return byte == std::byte{}; });
}

// Zero of either sign.
bool all_zero_values(const LogicalTensor& tensor) {
  if (!is_float(tensor.dtype)) return all_zero(tensor.bytes);
  const std::size_t size = size_of(tensor.dtype);
  for (std::size_t at = 0; at < tensor.bytes.size(); at += size) {
    if (value_of(load_bits(tensor.bytes.data() + at, tensor.dtype), tensor.dtype) != 0)
      return false;
  }
  return true;
}

const LogicalTensor* find(const LogicalState& state, const TensorKey& key) {
  const auto found = state.tensors.find(key);
  return found == state.tensors.end() ? nullptr : &found->second;
}

// A quantised moment is zero where its scales are, or where every code stands for zero.
bool quantised_moment_is_zero(const LogicalState& state, const TensorKey& codes_key,
                              const std::string& moment) {
  const LogicalTensor* codes = find(state, codes_key);
  const LogicalTensor* scale = find(state, {codes_key.name, moment + ".scale"});
  const LogicalTensor* codebook = find(state, {codes_key.name, moment + ".codebook"});
  if (scale != nullptr && all_zero_values(*scale)) return true;
  if (codebook == nullptr || codes->dtype != Dtype::u8) return all_zero_values(*codes);
  const std::size_t size = size_of(codebook->dtype);
  return std::all_of(codes->bytes.begin(), codes->bytes.end(), [&](std::byte code) {
    const std::size_t at = static_cast<std::size_t>(code) * size;
    return at + size <= codebook->bytes.size() &&
           value_of(load_bits(codebook->bytes.data() + at, codebook->dtype), codebook->dtype) == 0;
  });
}

// Whether the state has moments, and all of them are zero.
bool every_moment_is_zero(const LogicalState& state) {
  bool any = false;
  for (const auto& [key, tensor] : state.tensors) {
    for (const std::string moment : {"moment1", "moment2"}) {
      if (key.part == moment + ".codes") {
        any = true;
        if (!quantised_moment_is_zero(state, key, moment)) return false;
      } else if (key.part == moment || key.part == moment + ".values") {
        any = true;
        if (!all_zero_values(tensor)) return false;
      }
    }
  }
  return any;
}

bool same(const AssembledState* one, const AssembledState* two,
          const std::vector<std::string>& parts) {
  return one != nullptr && two != nullptr && compare(one->state, two->state, parts).same();
}

bool same_holders(const AssembledState& one, const AssembledState& two,
                  const std::vector<std::string>& parts) {
  const auto selected = [&](const AssembledState& assembled) {
    std::map<TensorKey, std::vector<HeldBox>> holders;
    for (const auto& [key, boxes] : assembled.holders) {
      if (!selects(parts, key.part)) continue;
      std::vector<HeldBox>& sorted = holders[key] = boxes;
      std::sort(sorted.begin(), sorted.end(), [](const HeldBox& left, const HeldBox& right) {
        return std::tie(left.rank, left.box.offsets(), left.box.sizes()) <
               std::tie(right.rank, right.box.offsets(), right.box.sizes());
      });
    }
    return holders;
  };
  return selected(one) == selected(two);
}

bool has_common_value(const AssembledState* one, const AssembledState* two,
                      const std::vector<std::string>& parts) {
  if (one == nullptr || two == nullptr) return false;
  const auto& values = one->state.values;
  return std::any_of(values.begin(), values.end(), [&](const auto& entry) {
    return selects(parts, value_part(entry.first)) && two->state.values.contains(entry.first);
  });
}

std::optional<std::string> absent_part(const VacuityEvidence& evidence) {
  for (const std::string& selector : evidence.parts) {
    if (!has_part(evidence.at_save, selector) && !has_part(evidence.after_load, selector)) {
      return fmt::format(
          "no state has a part '{}': take it out of compare.parts, or make the "
          "adapter give it",
          selector);
    }
  }
  return std::nullopt;
}

// Kept once a run or a sample, and not by parameter.
bool is_of_the_run(const std::string& part) {
  return part == "rng" || part == "data_position" || part == "grad_norm";
}

bool has_shape_of_parameter(const std::string& part) {
  return part == "param" || part == "master" || part.ends_with(".codes") ||
         part.ends_with(".values");
}

// A state that leaves a parameter out on both sides, or rows of it, agrees with itself.
std::optional<std::string> absent_parameter(const VacuityEvidence& evidence,
                                            const LogicalState& state) {
  for (const auto& [name, shape] : evidence.parameters) {
    for (const std::string& selector : evidence.parts) {
      // .codes: not of every parameter; fp8: of modules
      if (selector.find('.') != std::string::npos || selector == "fp8") continue;
      if (is_of_the_run(selector)) continue;
      bool anywhere = false, here = false;
      for (const auto& [key, tensor] : state.tensors) {
        if (!selects(selector, key.part)) continue;
        anywhere = true;
        here = here || key.name == name;
        if (key.name != name || !has_shape_of_parameter(key.part) || tensor.shape == shape) {
          continue;
        }
        return fmt::format(
            "{} has the shape {}, but the parameter has {}: the adapter's state must give all of "
            "it",
            to_text(key), to_text(tensor.shape), to_text(shape));
      }
      if (anywhere && !here) {
        return fmt::format("no state has a part '{}' of {}: the adapter's state must give it",
                           selector, name);
      }
    }
  }
  return std::nullopt;
}

bool all_one(const LogicalTensor& tensor) {
  if (!is_float(tensor.dtype)) return false;
  const std::size_t size = size_of(tensor.dtype);
  for (std::size_t at = 0; at < tensor.bytes.size(); at += size) {
    if (value_of(load_bits(tensor.bytes.data() + at, tensor.dtype), tensor.dtype) != 1)
      return false;
  }
  return true;
}

// The history of one row is zero after every step: the scale alone tells what was seen.
bool tells_nothing(const TensorKey& key, const LogicalTensor& tensor) {
  if (selects("fp8.amax_history", key.part)) return all_zero_values(tensor);
  return (selects("fp8.scale", key.part) || selects("fp8.scale_inv", key.part)) && all_one(tensor);
}

std::optional<std::string> fp8_that_proves_nothing(const LogicalState& state,
                                                   const std::vector<std::string>& parts) {
  bool any = false, one_row = false;
  for (const auto& [key, tensor] : state.tensors) {
    if (!selects("fp8", key.part) || !selects(parts, key.part)) continue;
    if (selects("fp8.amax_history", key.part) && !tensor.shape.empty() && tensor.shape[0] == 1) {
      one_row = true;
      continue;
    }
    any = true;
    if (!tells_nothing(key, tensor)) continue;
    return fmt::format(
        "{} is at the save as in a module that has seen nothing: let it see values before "
        "save_after, in both directions",
        to_text(key));
  }
  if (any || !one_row) return std::nullopt;
  return "an amax history of one row is zero after every step: compare fp8.scale too";
}

// "layers.0.fc1.weight" -> "layers.0"; nothing for a parameter of no layer.
std::string layer_of(const std::string& parameter) {
  const std::string start = "layers.";
  if (!parameter.starts_with(start)) return {};
  const std::size_t end = parameter.find('.', start.size());
  return end == std::string::npos ? std::string() : parameter.substr(0, end);
}

// The FP8 state is told by modules: the layer itself, one inside it, or a rank's own.
std::optional<std::string> layer_without_fp8(
    const LogicalState& state, const std::vector<std::string>& parts,
    const std::vector<std::pair<std::string, Shape>>& parameters) {
  for (const std::string& selector : parts) {
    if (!selects("fp8", selector)) continue;
    for (const auto& [parameter, shape] : parameters) {
      const std::string layer = layer_of(parameter);
      const auto is_layers = [&](std::string_view name) {
        return name.starts_with(layer) && (name.size() == layer.size() ||
                                           name[layer.size()] == '.' || name[layer.size()] == '@');
      };
      bool told = layer.empty();
      for (const auto& [key, tensor] : state.tensors) {
        told = told || (selects(selector, key.part) && is_layers(key.name));
      }
      for (const auto& [name, value] : state.values) {
        const std::string part = value_part(name);
        told = told || (selects(selector, part) && name.size() > part.size() &&
                        is_layers(std::string_view(name).substr(part.size() + 1)));
      }
      if (told) continue;
      return fmt::format("no state has a part '{}' of {}: the adapter's state must give it",
                         selector, layer);
    }
  }
  return std::nullopt;
}

bool changes_with_steps(const std::string& selector) {
  const std::string family = selector.substr(0, selector.find('.'));
  static const std::set<std::string> kFamilies = {"param", "master", "moment1", "moment2", "step"};
  if (selector == "fp8" || is_of_the_run(selector)) return true;
  return kFamilies.contains(family) && !selector.ends_with(".codebook");
}

// Whether `one` has tensors of that part and parameter, and `two` has every one of them as it is.
bool stands_still(const AssembledState& one, const AssembledState& two, const std::string& selector,
                  const std::string& name) {
  bool any = false;
  for (const auto& [key, tensor] : one.state.tensors) {
    if (key.name != name || !selects(selector, key.part) || key.part.ends_with(".codebook")) {
      continue;
    }
    any = true;
    const LogicalTensor* other = find(two.state, key);
    if (other == nullptr || other->bytes != tensor.bytes) return false;
  }
  return any;
}

// A generator that draws at every step and stands still was not asked, or is not the one that
// draws.
std::optional<std::string> generator_that_stands_still(const AssembledState& one,
                                                       const AssembledState& two) {
  for (const auto& [name, value] : one.state.values) {
    if (value_part(name) != "rng") continue;
    const auto other = two.state.values.find(name);
    if (other != two.state.values.end() && other->second == value) return name;
  }
  return std::nullopt;
}

// A counter or a scale that is at the save what a fresh run begins with.
std::optional<std::string> value_as_in_a_fresh_start(const AssembledState* fresh,
                                                     const AssembledState* at_save,
                                                     const std::vector<std::string>& parts) {
  if (fresh == nullptr || at_save == nullptr) return std::nullopt;
  for (const auto& [name, value] : at_save->state.values) {
    const std::string part = value_part(name);
    if (!selects(parts, part) || (part != "scheduler" && part != "loss_scaler")) continue;
    const auto found = fresh->state.values.find(name);
    if (found != fresh->state.values.end() && found->second == value) return name;
  }
  return std::nullopt;
}

// The first selected part of a parameter that every step changes, but that is the same in both.
std::optional<std::string> unchanged_part(const AssembledState* one, const AssembledState* two,
                                          const std::vector<std::string>& parts) {
  if (one == nullptr || two == nullptr) return std::nullopt;
  std::set<std::string> names;
  for (const auto& [key, tensor] : one->state.tensors) names.insert(key.name);
  for (const std::string& selector : parts) {
    if (selector == "rng") {
      if (const auto name = generator_that_stands_still(*one, *two)) return *name;
    }
    if (!changes_with_steps(selector)) continue;
    for (const std::string& name : names) {
      if (stands_still(*one, *two, selector, name)) return selector + " of " + name;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> why_vacuous(const VacuityEvidence& evidence) {
  const auto& [fresh, at_save, after_load, at_end, resumed_end, mesh_changed, same_storage, parts,
               parameters, compared_tensors, rounds_by_generator] = evidence;
  if (same_storage || (at_save != nullptr && at_save == after_load) ||
      (at_end != nullptr && at_end == resumed_end)) {
    return "the resumed state is the saved state's own storage, compared with itself: give the "
           "resume its own memory and files";
  }
  if (const auto reason = absent_part(evidence)) return reason;
  for (const AssembledState* assembled : {at_save, after_load}) {
    if (assembled == nullptr) continue;
    if (const auto reason = absent_parameter(evidence, assembled->state)) return reason;
  }
  if (compared_tensors == 0 && !has_common_value(at_save, after_load, parts)) {
    return "nothing was compared: compare.parts selects nothing that both sides have";
  }
  if (rounds_by_generator && std::find(parts.begin(), parts.end(), "rng") == parts.end()) {
    return "a generator decides how parameters are rounded, and is not compared: put rng into "
           "compare.parts";
  }
  if (at_save != nullptr && every_moment_is_zero(at_save->state)) {
    return "every moment is zero at the save, so losing them changes nothing: let gradients be "
           "other than zero before save_after";
  }
  if (at_save != nullptr) {
    if (const auto reason = fp8_that_proves_nothing(at_save->state, parts)) return reason;
    if (const auto reason = layer_without_fp8(at_save->state, parts, parameters)) return reason;
  }
  if (same(fresh, at_save, parts)) {
    return "the saved state equals a fresh start, so a resume that loads nothing would pass: save "
           "after more steps, or compare parts that a step changes";
  }
  if (same(at_save, at_end, parts)) {
    return "nothing changed between the save and the last step, so a resume that never trains "
           "would pass: set train_until beyond save_after, with gradients other than zero";
  }
  auto part = unchanged_part(fresh, at_save, parts);
  if (!part) part = value_as_in_a_fresh_start(fresh, at_save, parts);
  if (part) {
    return fmt::format(
        "{} is at the save what it is in a fresh start, so a resume that does not load it would "
        "pass: let it change before save_after, or mend the adapter's state",
        *part);
  }
  if (part = unchanged_part(at_save, at_end, parts); part) {
    return fmt::format(
        "{} did not change between the save and the last step: let it change, or mend the "
        "adapter's state",
        *part);
  }
  if (mesh_changed && at_save != nullptr && after_load != nullptr &&
      same_holders(*at_save, *after_load, parts)) {
    return "the mesh changed, but every rank holds the box it held before: use meshes or shapes "
           "that move a boundary";
  }
  return std::nullopt;
}

}  // namespace resumecheck
