#include "harness/adapters/reference/placement_damage.h"

#include <algorithm>
#include <functional>

#include "harness/scenario/placement.h"

namespace resumecheck {
namespace {

// Of the parameter's own shape, an element for each of its elements.
bool has_the_parameters_shape(const std::string& part) {
  return part == "param" || part == "master" || part.ends_with(".codes") ||
         part.ends_with(".values");
}

std::vector<Box> distinct_boxes(const LogicalTensor& tensor, const std::string& name,
                                const Settings& settings, const Mesh& onto) {
  std::vector<Box> boxes;
  const Placement placement = placement_of(settings, name, onto);
  for (int rank = 0; rank < onto.world(); ++rank) {
    const Box box = box_of(tensor.shape, placement, onto, rank);
    if (box.empty() || std::find(boxes.begin(), boxes.end(), box) != boxes.end()) continue;
    boxes.push_back(box);
  }
  return boxes;
}

std::vector<Box> by_offset(std::vector<Box> boxes) {
  std::sort(boxes.begin(), boxes.end(),
            [](const Box& a, const Box& b) { return a.offsets() < b.offsets(); });
  return boxes;
}

Bytes taken(const Bytes& whole, const Shape& shape, const Box& box, std::size_t size) {
  Bytes bytes(static_cast<std::size_t>(box.element_count()) * size);
  copy_region(box, Box::whole(shape), whole, box, bytes, size);
  return bytes;
}

void put(LogicalTensor& tensor, const Box& box, const Bytes& bytes) {
  copy_region(box, box, bytes, Box::whole(tensor.shape), tensor.bytes, size_of(tensor.dtype));
}

// The i-th rank that holds a box of its own takes the i-th in the order of the tensor.
void ignore_rank_order(LogicalTensor& tensor, const std::vector<Box>& boxes) {
  const std::vector<Box> sorted = by_offset(boxes);
  const Bytes old = tensor.bytes;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (boxes[i].sizes() != sorted[i].sizes()) return;
  }
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    put(tensor, boxes[i], taken(old, tensor.shape, sorted[i], size_of(tensor.dtype)));
  }
}

bool are_whole_rows(const std::vector<Box>& boxes, const Shape& shape) {
  return boxes.size() > 1 && std::all_of(boxes.begin(), boxes.end(), [&](const Box& box) {
           return std::equal(shape.begin() + 1, shape.end(), box.sizes().begin() + 1);
         });
}

// Shard i begins at row i * floor(n / k), as it does where k divides n.
void take_even_offsets(LogicalTensor& tensor, const std::vector<Box>& boxes, int shards) {
  if (!are_whole_rows(boxes, tensor.shape) || tensor.shape[0] % shards == 0) return;
  const Bytes old = tensor.bytes;
  const std::int64_t each = tensor.shape[0] / shards;
  const std::vector<Box> sorted = by_offset(boxes);
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    Shape offsets = sorted[i].offsets();
    offsets[0] = static_cast<std::int64_t>(i) * each;
    put(tensor, sorted[i],
        taken(old, tensor.shape, Box(offsets, sorted[i].sizes()), size_of(tensor.dtype)));
  }
}

// The last shard is shorter than the others and was padded to their size: its padding comes first.
void take_padding(LogicalTensor& tensor, const std::vector<Box>& boxes) {
  if (!are_whole_rows(boxes, tensor.shape)) return;
  const std::vector<Box> sorted = by_offset(boxes);
  const Box& last = sorted.back();
  const std::int64_t padding = sorted.front().sizes()[0] - last.sizes()[0];
  if (padding <= 0) return;
  Bytes rows = taken(tensor.bytes, tensor.shape, last, size_of(tensor.dtype));
  const auto row = static_cast<std::int64_t>(rows.size()) / last.sizes()[0];
  const std::int64_t moved =
      std::min<std::int64_t>(padding * row, static_cast<std::int64_t>(rows.size()));
  std::move_backward(rows.begin(), rows.end() - moved, rows.end());
  std::fill(rows.begin(), rows.begin() + moved, std::byte{0});
  put(tensor, last, rows);
}

// source: the element of the old tensor that element i of the new one gets.
void permute(LogicalTensor& tensor, const std::function<std::int64_t(std::int64_t)>& source) {
  const Bytes old = tensor.bytes;
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
  for (std::int64_t i = 0; i < element_count(tensor.shape); ++i) {
    std::copy_n(old.begin() + source(i) * size, size, tensor.bytes.begin() + i * size);
  }
}

// Shards of columns, joined one behind the other.
void join_columns_as_rows(LogicalTensor& tensor, int shards) {
  const std::int64_t rows = tensor.shape[0], columns = tensor.shape[1] / shards;
  permute(tensor, [=](std::int64_t i) {
    const std::int64_t shard = i / (rows * columns), in_shard = i % (rows * columns);
    return in_shard / columns * columns * shards + shard * columns + in_shard % columns;
  });
}

void interleave_rows(LogicalTensor& tensor) {
  const std::int64_t rows = tensor.shape[0], row = element_count(tensor.shape) / rows;
  permute(tensor, [=](std::int64_t i) {
    const std::int64_t at = i / row;
    return (at % 2 * (rows / 2) + at / 2) * row + i % row;
  });
}

void damage_tensor(LogicalTensor& tensor, const TensorKey& key, const Defects& defects,
                   const Settings& settings, const Mesh& onto) {
  const std::vector<Box> boxes = distinct_boxes(tensor, key.name, settings, onto);
  if (defects.has(Defect::rank_order_ignored)) ignore_rank_order(tensor, boxes);
  if (defects.has(Defect::uneven_shard_offset_wrong)) {
    take_even_offsets(tensor, boxes, onto.size_of("dp"));
  }
  if (defects.has(Defect::padding_taken_for_rows)) take_padding(tensor, boxes);
  const int tp = onto.size_of("tp");
  if (tp == 1 || settings.model.kind.empty()) return;
  if (defects.has(Defect::columns_taken_for_rows) && key.name.ends_with("fc2.weight")) {
    join_columns_as_rows(tensor, tp);
  }
  if (defects.has(Defect::fused_rows_interleaved) &&
      (key.name.ends_with("fc1.weight") || key.name.ends_with("fc1.bias"))) {
    interleave_rows(tensor);
  }
}

// Whole parameters get what another has, with all its moments.
using Source = std::function<ModelPart(const ModelPart&)>;
void take_from_others(LogicalState& state, const Settings& settings, const Source& source) {
  const LogicalState old = state;
  for (auto& [key, tensor] : state.tensors) {
    if (selects("fp8", key.part) || key.name.rfind("layers.", 0) != 0) continue;
    const ModelPart from = source(model_part(key.name));
    const auto found = old.tensors.find(
        {parameter_name(settings.model, from.layer, from.expert, from.name), key.part});
    if (found != old.tensors.end()) tensor.bytes = found->second.bytes;
  }
}

}  // namespace

std::vector<DefectDescription> placement_defects() {
  return {
      {Defect::rank_order_ignored,
       "rank_order_ignored",
       "the load gives ranks that hold strided shards contiguous ones in the order of the ranks",
       "rank order ignored",
       false,
       false,
       "",
       {"dp2tp2"}},
      {Defect::uneven_shard_offset_wrong,
       "uneven_shard_offset_wrong",
       "the load reads shard i from row i floor(n/k), where shards are ceil(n/k) rows each",
       "offset of an even shard",
       false,
       false,
       "",
       {"dp5", "dp3"}},
      {Defect::padding_taken_for_rows,
       "padding_taken_for_rows",
       "the last, shorter shard gets its padding first and loses as many of its rows",
       "padding taken for rows",
       false,
       false,
       "",
       {"dp5", "dp3"}},
      {Defect::experts_permuted, "experts_permuted",
       "every expert gets the parameters and moments of the next one", "another expert's", false,
       false, "experts"},
      {Defect::stage_layers_off_by_one,
       "stage_layers_off_by_one",
       "the stages behind the first get the layers that come one before their own",
       "another layer's",
       false,
       false,
       "",
       {"pp2"}},
      {Defect::columns_taken_for_rows,
       "columns_taken_for_rows",
       "shards of columns are joined one behind the other, as shards of rows are",
       "columns taken for rows",
       false,
       false,
       "",
       {"tp2dp2"}},
      {Defect::fused_rows_interleaved,
       "fused_rows_interleaved",
       "the rows of the first fully connected layer's two halves take turns",
       "rows interleaved",
       false,
       false,
       "",
       {"tp2dp2"}},
  };
}

void damage_placement(LogicalState& checkpoint, const Defects& defects, const Settings& settings,
                      const Mesh& onto) {
  for (auto& [key, tensor] : checkpoint.tensors) {
    if (!has_the_parameters_shape(key.part) || tensor.shape.empty()) continue;
    damage_tensor(tensor, key, defects, settings, onto);
  }
  if (defects.has(Defect::experts_permuted) && settings.model.experts > 1) {
    take_from_others(checkpoint, settings, [&](ModelPart part) {
      if (part.expert >= 0) part.expert = (part.expert + 1) % settings.model.experts;
      return part;
    });
  }
  if (defects.has(Defect::stage_layers_off_by_one) && onto.size_of("pp") > 1) {
    const std::int64_t second_stage = chunk(settings.model.layers, onto.size_of("pp"), 1).first;
    take_from_others(checkpoint, settings, [&](ModelPart part) {
      if (part.layer >= second_stage) --part.layer;
      return part;
    });
  }
}

}  // namespace resumecheck
