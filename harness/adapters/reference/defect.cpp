#include "harness/adapters/reference/defect.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "harness/state/error.h"
#include "kernels/float_bits.h"

namespace resumecheck {
namespace {

bool starts_with(const std::string& text, std::string_view start) {
  return text.compare(0, start.size(), start) == 0;
}

bool is_scale(const std::string& part) {
  return part == "moment1.scale" || part == "moment2.scale";
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
                                  const Mesh& onto) {
  std::vector<Box> loading, saved;
  for (int rank = 0; rank < onto.world(); ++rank) {
    loading.push_back(parameter_box(checkpoint.state.tensors.at(key).shape, onto, rank));
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

// Of one tensor only: the first moment that has the parameter's shape and two shards that differ.
void swap_two_shards(AssembledState& checkpoint, const Mesh& onto) {
  for (auto& [key, tensor] : checkpoint.state.tensors) {
    if (key.part != "moment1.codes" && key.part != "moment1.values") continue;
    const std::optional<BoxPair> pair = two_shards(checkpoint, key, onto);
    if (!pair) continue;
    const Bytes first = taken(tensor, pair->first);
    const Bytes second = taken(tensor, pair->second);
    if (first == second) continue;
    put(tensor, pair->first, second);
    put(tensor, pair->second, first);
    return;
  }
}

}  // namespace

const std::vector<DefectDescription>& defect_descriptions() {
  static const std::vector<DefectDescription> all = {
      {Defect::cast_moments_to_param_dtype, "cast_moments_to_param_dtype",
       "after the load, scales and unquantised moments have the parameters' dtype and keep it",
       "cast to the parameters' dtype"},
      {Defect::scale_through_bf16, "scale_through_bf16",
       "the load rounds every scale through bf16; it is fp32 again afterwards",
       "rounded through bf16"},
      {Defect::swap_two_shards, "swap_two_shards",
       "the load exchanges two shards of one tensor's first moment", "another rank's shard"},
      {Defect::step_restarts, "step_restarts",
       "the load leaves the optimizer's step at 0; the data goes on", "step restarted"},
      {Defect::stale_shard, "stale_shard",
       "one shard is saved as it was one step before, where no other rank holds the same elements",
       "one step stale"},
      {Defect::zero_moments, "zero_moments",
       "the load leaves codes, scales and unquantised moments as a fresh optimizer has them",
       "fresh start"},
  };
  return all;
}

const DefectDescription* find_defect(std::string_view name) {
  for (const DefectDescription& description : defect_descriptions()) {
    if (description.name == name) return &description;
  }
  return nullptr;
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
    bits_ |= 1U << static_cast<unsigned>(description->defect);
  }
}

void damage(AssembledState& checkpoint, const Defects& defects, const Mesh& onto) {
  for (auto& [key, tensor] : checkpoint.state.tensors) {
    if (defects.has(Defect::scale_through_bf16) && is_scale(key.part)) {
      round_through_bf16(tensor.bytes);
    }
    if (defects.has(Defect::zero_moments) && is_moment(key.part)) {
      std::fill(tensor.bytes.begin(), tensor.bytes.end(), std::byte{0});
    }
  }
  if (defects.has(Defect::swap_two_shards)) swap_two_shards(checkpoint, onto);
}

}  // namespace resumecheck
