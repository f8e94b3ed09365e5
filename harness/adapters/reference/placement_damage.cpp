#include "harness/adapters/reference/placement_damage.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "harness/scenario/placement.h"

namespace resumecheck {
namespace {

// What the ranks of a mesh hold of one parameter, once each, by rank; no empty boxes.
std::vector<Box> boxes_by_rank(const Settings& settings, const std::string& name,
                               const Shape& shape, const Mesh& mesh) {
  const Placement placement = placement_of(settings, name, mesh);
  std::vector<Box> boxes;
  for (int rank = 0; rank < mesh.world(); ++rank) {
    const Box box = box_of(shape, placement, mesh, rank);
    if (!box.empty() && std::find(boxes.begin(), boxes.end(), box) == boxes.end()) {
      boxes.push_back(box);
    }
  }
  return boxes;
}

std::vector<Box> by_offset(std::vector<Box> boxes) {
  std::sort(boxes.begin(), boxes.end(),
            [](const Box& a, const Box& b) { return a.offsets() < b.offsets(); });
  return boxes;
}

bool of_one_size(const std::vector<Box>& boxes) {
  return std::all_of(boxes.begin(), boxes.end(),
                     [&](const Box& box) { return box.sizes() == boxes.front().sizes(); });
}

bool rank_order_matters(const std::vector<Box>& boxes) {
  return !boxes.empty() && of_one_size(boxes) && boxes != by_offset(boxes);
}

Bytes content_of(const LogicalTensor& tensor, const Box& box) {
  const std::size_t size = size_of(tensor.dtype);
  Bytes bytes(static_cast<std::size_t>(box.element_count()) * size);
  copy_region(box, Box::whole(tensor.shape), tensor.bytes, box, bytes, size);
  return bytes;
}

void ignore_rank_order(LogicalTensor& tensor, const std::vector<Box>& boxes) {
  if (!rank_order_matters(boxes)) return;
  const std::vector<Box> sorted = by_offset(boxes);
  const LogicalTensor saved = tensor;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    copy_region(boxes[i], boxes[i], content_of(saved, sorted[i]), Box::whole(tensor.shape),
                tensor.bytes, size_of(tensor.dtype));
  }
}

// ---- rows of a tensor that nothing but dp splits

std::int64_t rows_of(const LogicalTensor& tensor) {
  return tensor.shape.empty() ? 1 : tensor.shape.front();
}

std::ptrdiff_t bytes_of_rows(const LogicalTensor& tensor, std::int64_t rows) {
  return static_cast<std::ptrdiff_t>(tensor.bytes.size()) / rows_of(tensor) * rows;
}

void take_even_offsets(LogicalTensor& tensor, int shards) {
  const Bytes saved = tensor.bytes;
  const std::int64_t rows = rows_of(tensor);
  for (int i = 0; i < shards; ++i) {
    const Rows shard = chunk(rows, shards, i);
    std::copy_n(saved.begin() + bytes_of_rows(tensor, rows / shards * i),
                bytes_of_rows(tensor, shard.last - shard.first),
                tensor.bytes.begin() + bytes_of_rows(tensor, shard.first));
  }
}

void put_padding_first(LogicalTensor& tensor, int shards) {
  const std::int64_t full = chunk(rows_of(tensor), shards, 0).last;
  for (int i = 1; i < shards; ++i) {
    const Rows shard = chunk(rows_of(tensor), shards, i);
    const std::int64_t held = shard.last - shard.first;
    if (held == 0 || held == full) continue;
    const auto begin = tensor.bytes.begin() + bytes_of_rows(tensor, shard.first);
    const auto end = tensor.bytes.begin() + bytes_of_rows(tensor, shard.last);
    const auto padding = begin + bytes_of_rows(tensor, std::min(full - held, held));
    std::move_backward(begin, end - (padding - begin), end);
    std::fill(begin, padding, std::byte{0});
  }
}

// ---- of a model's layers and experts

// Every tensor of a parameter gets what the parameter `source` names has.
void take_from(LogicalState& state, const Settings& settings,
               const std::function<ModelPart(ModelPart)>& source) {
  const LogicalState saved = state;
  for (auto& [key, tensor] : state.tensors) {
    const bool known = std::any_of(settings.parameters.begin(), settings.parameters.end(),
                                   [&](const auto& one) { return one.first == key.name; });
    if (!known) continue;
    const ModelPart from = source(model_part(key.name));
    const std::string name = parameter_name(settings.model, from.layer, from.expert, from.name);
    const auto found = saved.tensors.find({name, key.part});
    if (found != saved.tensors.end()) tensor = found->second;
  }
}

void permute_experts(LogicalState& state, const Settings& settings) {
  take_from(state, settings, [&](ModelPart part) {
    if (part.expert >= 0) part.expert = (part.expert + 1) % settings.model.experts;
    return part;
  });
}

void shift_layers(LogicalState& state, const Settings& settings, const Mesh& onto) {
  const std::int64_t of_first_stage = layers_at(settings.model, onto, 0).last;
  take_from(state, settings, [&](ModelPart part) {
    if (part.layer >= of_first_stage) part.layer -= 1;
    return part;
  });
}

// ---- what tp splits

void join_columns_as_rows(LogicalTensor& tensor, int shards) {
  const LogicalTensor saved = tensor;
  Bytes joined;
  for (int i = 0; i < shards; ++i) {
    const Rows columns = chunk(tensor.shape[1], shards, i);
    const Bytes shard =
        content_of(saved, Box({0, columns.first}, {tensor.shape[0], columns.last - columns.first}));
    joined.insert(joined.end(), shard.begin(), shard.end());
  }
  tensor.bytes = joined;
}

void interleave_rows(LogicalTensor& tensor) {
  const std::int64_t rows = rows_of(tensor);
  if (rows % 2 != 0) return;
  const Bytes saved = tensor.bytes;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t from = row / 2 + (row % 2) * (rows / 2);
    std::copy_n(saved.begin() + bytes_of_rows(tensor, from), bytes_of_rows(tensor, 1),
                tensor.bytes.begin() + bytes_of_rows(tensor, row));
  }
}

void damage_tensor(const std::string& name, LogicalTensor& tensor, const Defects& defects,
                   const Settings& settings, const Mesh& onto) {
  const int dp = onto.size_of("dp"), tp = onto.size_of("tp");
  if (defects.has(Defect::rank_order_ignored)) {
    ignore_rank_order(tensor, boxes_by_rank(settings, name, tensor.shape, onto));
  }
  const bool uneven = tp == 1 && rows_of(tensor) % dp != 0;
  if (uneven && defects.has(Defect::uneven_shard_offset_wrong)) take_even_offsets(tensor, dp);
  if (uneven && defects.has(Defect::padding_taken_for_rows)) put_padding_first(tensor, dp);
  if (tp == 1 || settings.model.kind.empty()) return;
  const std::string part = model_part(name).name;
  if (part == "fc2.weight" && defects.has(Defect::columns_taken_for_rows)) {
    join_columns_as_rows(tensor, tp);
  }
  if ((part == "fc1.weight" || part == "fc1.bias") && defects.has(Defect::fused_rows_interleaved)) {
    interleave_rows(tensor);
  }
}

// ---- the meshes that each is about

bool ranks_out_of_order(const Settings& settings, const Mesh& onto) {
  return std::any_of(settings.parameters.begin(), settings.parameters.end(), [&](const auto& one) {
    return rank_order_matters(boxes_by_rank(settings, one.first, one.second, onto));
  });
}

bool splits_unevenly(const Settings& settings, const Mesh& onto) {
  const int dp = onto.size_of("dp");
  return onto.size_of("tp") == 1 &&
         std::any_of(settings.parameters.begin(), settings.parameters.end(), [&](const auto& one) {
           return (one.second.empty() ? 1 : one.second.front()) % dp != 0;
         });
}

bool has_experts(const Settings& settings, const Mesh&) { return settings.model.experts > 1; }

bool has_stages(const Settings& settings, const Mesh& onto) {
  return !settings.model.kind.empty() && onto.size_of("pp") > 1;
}

bool splits_features(const Settings& settings, const Mesh& onto) {
  return !settings.model.kind.empty() && onto.size_of("tp") > 1;
}

}  // namespace

std::vector<DefectDescription> placement_defects() {
  return {
      {Defect::rank_order_ignored, "rank_order_ignored",
       "the load gives the first rank the first shard by offset, the next rank the next, though "
       "the mesh has them in another order",
       "rank order ignored", false, false, "", ranks_out_of_order},
      {Defect::uneven_shard_offset_wrong, "uneven_shard_offset_wrong",
       "the load takes each shard from where it would begin if all were equally long",
       "offset of an even shard", false, false, "", splits_unevenly},
      {Defect::padding_taken_for_rows, "padding_taken_for_rows",
       "the load puts the padding of a short shard before its rows, and its last rows are lost",
       "padding taken for rows", false, false, "", splits_unevenly},
      {Defect::experts_permuted, "experts_permuted",
       "the load gives every expert all that the next one has", "another expert's", false, false,
       "experts", has_experts},
      {Defect::stage_layers_off_by_one, "stage_layers_off_by_one",
       "the load gives layers of every stage but the first all that the layer before has",
       "another layer's", false, false, "", has_stages},
      {Defect::columns_taken_for_rows, "columns_taken_for_rows",
       "the load joins shards of columns as if they were rows", "columns taken for rows", false,
       false, "", splits_features},
      {Defect::fused_rows_interleaved, "fused_rows_interleaved",
       "the load interleaves the two halves of the rows that tp splits", "rows interleaved", false,
       false, "", splits_features},
  };
}

void damage_placement(LogicalState& checkpoint, const Defects& defects, const Settings& settings,
                      const Mesh& onto) {
  for (const auto& [name, shape] : settings.parameters) {
    for (const char* part : {"param", "master", "moment1.codes", "moment1.values", "moment2.codes",
                             "moment2.values"}) {
      const auto found = checkpoint.tensors.find({name, part});
      if (found == checkpoint.tensors.end() || found->second.shape != shape) continue;
      damage_tensor(name, found->second, defects, settings, onto);
    }
  }
  if (defects.has(Defect::experts_permuted) && has_experts(settings, onto)) {
    permute_experts(checkpoint, settings);
  }
  if (defects.has(Defect::stage_layers_off_by_one) && has_stages(settings, onto)) {
    shift_layers(checkpoint, settings, onto);
  }
}

}  // namespace resumecheck
