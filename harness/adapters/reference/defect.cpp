#include "harness/adapters/reference/defect.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "harness/adapters/reference/fp8_damage.h"
#include "harness/adapters/reference/placement_damage.h"
#include "harness/adapters/reference/run_state_damage.h"
#include "harness/scenario/placement.h"
#include "harness/state/error.h"
#include "kernels/adamw.h"
#include "kernels/float_bits.h"

namespace resumecheck {
namespace {

bool starts_with(const std::string& text, std::string_view start) {
  return text.compare(0, start.size(), start) == 0;
}

bool is_scale(const std::string& part) {
  return part == "moment1.scale" || part == "moment2.scale" || selects("fp8.scale", part);
}

bool is_moment(const std::string& part) {
  return (starts_with(part, "moment1.") || starts_with(part, "moment2.")) &&
         part.find(".codebook") == std::string::npos;
}

void round_through_bf16(Bytes& fp32) {
  for (std::size_t at = 0; at + 4 <= fp32.size(); at += 4) {
    float value;
    std::memcpy(&value, fp32.data() + at, 4);
    value = kernels::widen_bf16(kernels::round_to_bf16(value));
    std::memcpy(fp32.data() + at, &value, 4);
  }
}

using BoxPair = std::pair<Box, Box>;

// The first two boxes that have the same size and no element in common.
std::optional<BoxPair> two_alike(const std::vector<Box>& boxes) {
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    for (std::size_t j = i + 1; j < boxes.size(); ++j) {
      if (boxes[i].empty() || boxes[i].sizes() != boxes[j].sizes()) continue;
      if (!boxes[i].intersection(boxes[j])) return BoxPair{boxes[i], boxes[j]};
    }
  }
  return std::nullopt;
}

// Shards of the loading mesh where it has two, else of the mesh that saved.
std::optional<BoxPair> two_shards(const AssembledState& checkpoint, const TensorKey& key,
                                  const Settings& settings, const Mesh& onto) {
  std::vector<Box> loading, saved;
  const Placement placement = placement_of(settings, key.name, onto);
  for (int rank = 0; rank < onto.world(); ++rank) {
    loading.push_back(box_of(checkpoint.state.tensors.at(key).shape, placement, onto, rank));
  }
  for (const HeldBox& held : checkpoint.holders.at(key)) saved.push_back(held.box);
  const auto pair = two_alike(loading);
  return pair ? pair : two_alike(saved);
}

Bytes taken(const LogicalTensor& tensor, const Box& box) {
  Bytes bytes(static_cast<std::size_t>(box.element_count()) * size_of(tensor.dtype));
  copy_region(box, Box::whole(tensor.shape), tensor.bytes, box, bytes, size_of(tensor.dtype));
  return bytes;
}

void put(LogicalTensor& tensor, const Box& box, const Bytes& bytes) {
  copy_region(box, box, bytes, Box::whole(tensor.shape), tensor.bytes, size_of(tensor.dtype));
}

// ---- of one moment's codes, scales and codebook, which mean something only together

constexpr const char* kMoments[] = {"moment1", "moment2"};

LogicalTensor* find(LogicalState& state, const std::string& name, const std::string& part) {
  const auto found = state.tensors.find({name, part});
  return found == state.tensors.end() ? nullptr : &found->second;
}

// The codebook was not saved, so both moments get the one that the loader makes first.
void drop_codebook(LogicalState& state, const std::string& name) {
  const LogicalTensor* first = find(state, name, "moment1.codebook");
  LogicalTensor* second = find(state, name, "moment2.codebook");
  if (first != nullptr && second != nullptr) second->bytes = first->bytes;
}

// Every element gets that of `elements` further on, and the last ones the first.
void rotate(LogicalTensor& tensor, std::int64_t elements) {
  const std::int64_t bytes = elements * static_cast<std::int64_t>(size_of(tensor.dtype));
  if (bytes <= 0 || bytes >= static_cast<std::int64_t>(tensor.bytes.size())) return;
  std::rotate(tensor.bytes.begin(), tensor.bytes.begin() + bytes, tensor.bytes.end());
}

void swap_nibbles(LogicalTensor& codes, const LogicalTensor* codebook) {
  if (codebook == nullptr || element_count(codebook->shape) != 16) return;
  const auto* begin = reinterpret_cast<const std::uint8_t*>(codes.bytes.data());
  const auto count = static_cast<std::int64_t>(codes.bytes.size());
  std::vector<std::uint8_t> packed = kernels::pack_nibbles(begin, count);
  for (std::uint8_t& pair : packed) pair = static_cast<std::uint8_t>(pair << 4U | pair >> 4U);
  const std::vector<std::uint8_t> swapped = kernels::unpack_nibbles(packed, count);
  std::memcpy(codes.bytes.data(), swapped.data(), swapped.size());
}

std::vector<float> floats_of(const LogicalTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(float));
  std::memcpy(values.data(), tensor.bytes.data(), values.size() * sizeof(float));
  return values;
}

void requantise(LogicalTensor& codes, LogicalTensor& scale, const LogicalTensor* codebook) {
  const std::vector<float> book = codebook == nullptr ? std::vector<float>() : floats_of(*codebook);
  const kernels::Storage storage = codebook == nullptr ? kernels::Storage::e4m3
                                   : book.size() == 16 ? kernels::Storage::map4
                                                       : kernels::Storage::map8;
  const std::int64_t count = element_count(codes.shape);
  auto* begin = reinterpret_cast<std::uint8_t*>(codes.bytes.data());
  std::vector<float> scales = floats_of(scale);
  std::vector<float> values(static_cast<std::size_t>(count));
  const float* entries = book.empty() ? nullptr : book.data();
  const kernels::Isa isa = kernels::best_isa();
  kernels::dequantise(storage, begin, scales.data(), entries, 0, count, codes.block, values.data(),
                      isa);
  kernels::quantise(storage, values.data(), count, codes.block, entries, begin, scales.data(), isa);
  std::memcpy(scale.bytes.data(), scales.data(), scale.bytes.size());
}

void damage_moment(LogicalState& state, const std::string& name, const std::string& moment,
                   const Defects& defects) {
  LogicalTensor* codes = find(state, name, moment + ".codes");
  LogicalTensor* scale = find(state, name, moment + ".scale");
  const LogicalTensor* codebook = find(state, name, moment + ".codebook");
  if (codes == nullptr || scale == nullptr) return;
  if (defects.has(Defect::codes_off_by_one_block)) rotate(*codes, codes->block);
  if (defects.has(Defect::nibbles_swapped)) swap_nibbles(*codes, codebook);
  if (defects.has(Defect::scale_of_neighbour)) rotate(*scale, 1);
  if (defects.has(Defect::moments_requantised_on_load)) requantise(*codes, *scale, codebook);
}

void rederive_master(LogicalState& state, const std::string& name) {
  const LogicalTensor* param = find(state, name, "param");
  LogicalTensor* master = find(state, name, "master");
  if (param == nullptr || master == nullptr || param->dtype != Dtype::bf16) return;
  for (std::size_t i = 0; 2 * i < param->bytes.size(); ++i) {
    std::uint16_t half;
    std::memcpy(&half, param->bytes.data() + 2 * i, sizeof half);
    const float value = kernels::widen_bf16(half);
    std::memcpy(master->bytes.data() + 4 * i, &value, sizeof value);
  }
}

void damage_parameter(LogicalState& state, const std::string& name, const Defects& defects) {
  for (const char* moment : kMoments) damage_moment(state, name, moment, defects);
  if (defects.has(Defect::drop_codebook)) drop_codebook(state, name);
  if (defects.has(Defect::master_rederived_from_bf16)) rederive_master(state, name);
}

// Of one tensor only: the first moment that has the parameter's shape and two shards that differ.
void swap_two_shards(AssembledState& checkpoint, const Settings& settings, const Mesh& onto) {
  for (auto& [key, tensor] : checkpoint.state.tensors) {
    if (key.part != "moment1.codes" && key.part != "moment1.values") continue;
    const std::optional<BoxPair> pair = two_shards(checkpoint, key, settings, onto);
    if (!pair) continue;
    const Bytes first = taken(tensor, pair->first);
    const Bytes second = taken(tensor, pair->second);
    if (first == second) continue;
    put(tensor, pair->first, second);
    put(tensor, pair->second, first);
    return;
  }
}

std::vector<DefectDescription> moment_and_fp8_defects() {
  return {
      {Defect::cast_moments_to_param_dtype, "cast_moments_to_param_dtype",
       "after the load, scales and unquantised moments have the parameters' dtype and keep it",
       "cast to the parameters' dtype"},
      {Defect::scale_through_bf16, "scale_through_bf16",
       "the load rounds every scale through bf16, FP8 scales too; it is fp32 again afterwards",
       "rounded through bf16"},
      {Defect::swap_two_shards, "swap_two_shards",
       "the load exchanges two shards of one tensor's first moment", "another rank's shard"},
      {Defect::step_restarts, "step_restarts",
       "the load leaves the optimizer's step at 0; the data goes on", "step restarted"},
      {Defect::stale_shard, "stale_shard",
       "one shard is saved as it was one step before, where no other rank holds the same elements",
       "one step stale", false, true},
      {Defect::zero_moments, "zero_moments",
       "the load leaves codes, scales and unquantised moments as a fresh optimizer has them",
       "fresh start"},
      {Defect::drop_codebook, "drop_codebook",
       "the codebooks are not loaded: both moments go on with that of the first",
       "codebook dropped"},
      {Defect::codes_off_by_one_block, "codes_off_by_one_block",
       "the load gives every block of codes to the block before it", "codes one block off"},
      {Defect::nibbles_swapped, "nibbles_swapped",
       "the load takes the low half of a byte of two 4-bit codes for the first", "nibbles swapped"},
      {Defect::scale_of_neighbour, "scale_of_neighbour",
       "the load gives every block the scale of the next one", "scale of a neighbouring block"},
      {Defect::moments_requantised_on_load, "moments_requantised_on_load",
       "the load dequantises the moments and quantises them again", "requantised"},
      {Defect::small_tensor_width_flips, "small_tensor_width_flips",
       "the load keeps the moments of the smallest quantised parameter unquantised from then on",
       "storage width flipped"},
      {Defect::alias_source, "alias_source",
       "a state dict in memory is loaded without a copy: the moments stay the source's own memory",
       "one step ahead"},
      {Defect::master_rederived_from_bf16, "master_rederived_from_bf16",
       "the load makes the master weights from the rounded parameters",
       "master re-derived from the parameter"},
      {Defect::extra_state_empty_before_first_forward, "extra_state_empty_before_first_forward",
       "FP8 modules have no state before their first step, so the load finds nowhere to put it",
       "extra state empty", true},
      {Defect::extra_state_dropped, "extra_state_dropped",
       "the load leaves FP8 scales and amax histories as fresh modules have them",
       "extra state dropped", true},
      {Defect::amax_history_reset, "amax_history_reset",
       "the load leaves the amax histories zero; the scales are right", "amax history reset", true},
      {Defect::amax_history_shifted_by_one, "amax_history_shifted_by_one",
       "the load moves the rows of the amax histories up by one", "amax history one row off", true},
      {Defect::scale_inv_stale, "scale_inv_stale",
       "the inverses of the FP8 scales are saved as they were one step before", "scale_inv stale",
       true, true},
      {Defect::forward_and_backward_swapped, "forward_and_backward_swapped",
       "the load exchanges forward's and backward's FP8 state, in the columns that both have",
       "forward and backward swapped", true},
      {Defect::rank0_extra_state_everywhere, "rank0_extra_state_everywhere",
       "every rank loads the FP8 state that rank 0 kept for itself", "rank 0's extra state", true},
      {Defect::amax_not_reduced, "amax_not_reduced",
       "from the load on, every rank updates its FP8 scales by its own amaxes", "amax not reduced",
       true},
  };
}

}  // namespace

const std::vector<DefectDescription>& defect_descriptions() {
  static const std::vector<DefectDescription> all = [] {
    std::vector<DefectDescription> every = moment_and_fp8_defects();
    for (DefectDescription& one : run_state_defects()) every.push_back(std::move(one));
    for (DefectDescription& one : placement_defects()) every.push_back(std::move(one));
    return every;
  }();
  return all;
}

const DefectDescription* find_defect(std::string_view name) {
  for (const DefectDescription& description : defect_descriptions()) {
    if (description.name == name) return &description;
  }
  return nullptr;
}

bool concerns(const DefectDescription& defect, const Settings& settings) {
  if (defect.of_fp8 && settings.fp8.recipe.empty()) return false;
  const std::vector<std::string> features = features_of(settings);
  return defect.feature.empty() ||
         std::find(features.begin(), features.end(), defect.feature) != features.end();
}

Defects::Defects(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const DefectDescription* description = find_defect(name);
    if (description == nullptr) {
      std::string known;
      for (const DefectDescription& other : defect_descriptions()) known += " " + other.name;
      throw Error(Error::Kind::usage, "defect '" + name + "'", "the reference has no such defect",
                  "one of" + known);
    }
    bits_ |= std::uint64_t{1} << static_cast<unsigned>(description->defect);
  }
}

void damage(AssembledState& checkpoint, const Defects& defects, const Settings& settings,
            const Mesh& onto) {
  for (auto& [key, tensor] : checkpoint.state.tensors) {
    if (defects.has(Defect::scale_through_bf16) && is_scale(key.part)) {
      round_through_bf16(tensor.bytes);
    }
    if (defects.has(Defect::zero_moments) && is_moment(key.part)) {
      std::fill(tensor.bytes.begin(), tensor.bytes.end(), std::byte{0});
    }
  }
  if (defects.has(Defect::swap_two_shards)) swap_two_shards(checkpoint, settings, onto);
  damage_placement(checkpoint.state, defects, settings, onto);
  damage_fp8(checkpoint.state, defects);
  std::set<std::string> names;
  for (const auto& entry : checkpoint.state.tensors) names.insert(entry.first.name);
  for (const std::string& name : names) damage_parameter(checkpoint.state, name, defects);
}

}  // namespace resumecheck
