#include "harness/compare/placement_hypotheses.h"

#include <charconv>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

namespace resumecheck {
namespace {

// Distinct boxes of a tensor on the mesh that loaded, by rank; none where one lies outside.
std::vector<Box> boxes_of(const Suspect& suspect, const Evidence& evidence) {
  std::vector<Box> boxes;
  const auto found = evidence.got->holders.find(suspect.key);
  if (found == evidence.got->holders.end()) return boxes;
  for (const HeldBox& held : found->second) {
    if (!held.box.inside(suspect.want->shape)) return {};
    if (std::find(boxes.begin(), boxes.end(), held.box) == boxes.end()) boxes.push_back(held.box);
  }
  return boxes;
}

std::optional<Explained> if_is(const Suspect& suspect, const Bytes& predicted, const char* detail) {
  return predicted == suspect.got->bytes ? Explained{suspect.count(), detail} : Explained{0, ""};
}

Bytes content_of(const LogicalTensor& tensor, const Box& box) {
  const std::size_t size = size_of(tensor.dtype);
  Bytes bytes(static_cast<std::size_t>(box.element_count()) * size);
  copy_region(box, Box::whole(tensor.shape), tensor.bytes, box, bytes, size);
  return bytes;
}

std::optional<Explained> rank_order_ignored(const Suspect& suspect, const Evidence& evidence) {
  if (!suspect.same_dtype()) return std::nullopt;
  const std::vector<Box> boxes = boxes_of(suspect, evidence);
  std::vector<Box> sorted = boxes;
  std::sort(sorted.begin(), sorted.end(),
            [](const Box& a, const Box& b) { return a.offsets() < b.offsets(); });
  if (boxes == sorted) return std::nullopt;
  Bytes predicted = suspect.want->bytes;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (boxes[i].sizes() != sorted[i].sizes()) return std::nullopt;
    copy_region(boxes[i], boxes[i], content_of(*suspect.want, sorted[i]),
                Box::whole(suspect.want->shape), predicted, size_of(suspect.want->dtype));
  }
  return if_is(suspect, predicted, "the first rank has the first shard by offset, and so on");
}

// ---- rows that nothing but dp splits

// "dp5" -> 5 shards by "dp"; 1 where the mesh has no such dim.
std::int64_t size_of_dim(std::string_view mesh, std::string_view dim) {
  const std::size_t at = mesh.find(dim);
  std::int64_t size = 1;
  if (at != std::string_view::npos) {
    std::from_chars(mesh.data() + at + dim.size(), mesh.data() + mesh.size(), size);
  }
  return size;
}

struct RowShards {
  std::int64_t rows = 0, shards = 0, full = 0, row_bytes = 0;

  std::int64_t first(std::int64_t shard) const { return std::min(rows, shard * full); }
  std::int64_t held(std::int64_t shard) const { return first(shard + 1) - first(shard); }
};

// Nothing where all shards are equally long, or something else cuts them too.
std::optional<RowShards> uneven_rows(const Suspect& suspect, const Evidence& evidence) {
  if (!suspect.same_dtype() || suspect.want->shape.empty()) return std::nullopt;
  const std::int64_t rows = suspect.want->shape.front();
  const std::int64_t shards = size_of_dim(evidence.got->mesh, "dp");
  if (shards < 2 || rows == 0 || rows % shards == 0) return std::nullopt;
  const RowShards split = {rows, shards, (rows + shards - 1) / shards,
                           static_cast<std::int64_t>(suspect.want->bytes.size()) / rows};
  for (const Box& box : boxes_of(suspect, evidence)) {
    const std::int64_t shard = box.offsets().front() / split.full;
    Shape sizes = suspect.want->shape;
    sizes.front() = split.held(shard);
    if (box.offsets().front() != split.first(shard) || box.sizes() != sizes) return std::nullopt;
  }
  return split;
}

std::optional<Explained> offset_of_even_shard(const Suspect& suspect, const Evidence& evidence) {
  const auto split = uneven_rows(suspect, evidence);
  if (!split) return std::nullopt;
  Bytes predicted = suspect.want->bytes;
  for (std::int64_t i = 0; i < split->shards; ++i) {
    std::copy_n(suspect.want->bytes.begin() + split->rows / split->shards * i * split->row_bytes,
                split->held(i) * split->row_bytes,
                predicted.begin() + split->first(i) * split->row_bytes);
  }
  return if_is(suspect, predicted, "as if all shards were equally long");
}

std::optional<Explained> padding_taken_for_rows(const Suspect& suspect, const Evidence& evidence) {
  const auto split = uneven_rows(suspect, evidence);
  if (!split) return std::nullopt;
  Bytes predicted = suspect.want->bytes;
  for (std::int64_t i = 0; i < split->shards; ++i) {
    const std::int64_t held = split->held(i);
    if (held == 0 || held == split->full) continue;
    const std::int64_t padding = std::min(held, split->full - held);
    const auto begin = predicted.begin() + split->first(i) * split->row_bytes;
    std::fill_n(begin, padding * split->row_bytes, std::byte{0});
    std::copy_n(suspect.want->bytes.begin() + split->first(i) * split->row_bytes,
                (held - padding) * split->row_bytes, begin + padding * split->row_bytes);
  }
  return if_is(suspect, predicted, "the last shard begins with zeros");
}

// ---- of the features that tp splits

std::optional<Explained> columns_taken_for_rows(const Suspect& suspect, const Evidence& evidence) {
  if (!suspect.same_dtype() || suspect.want->shape.size() != 2) return std::nullopt;
  const Shape& shape = suspect.want->shape;
  std::set<std::pair<std::int64_t, std::int64_t>> columns;
  for (const Box& box : boxes_of(suspect, evidence)) {
    columns.emplace(box.offsets()[1], box.sizes()[1]);
  }
  if (columns.size() < 2) return std::nullopt;
  Bytes predicted;
  for (const auto& [first, count] : columns) {
    const Bytes shard = content_of(*suspect.want, Box({0, first}, {shape[0], count}));
    predicted.insert(predicted.end(), shard.begin(), shard.end());
  }
  return if_is(suspect, predicted, "shards of columns one after the other");
}

std::optional<Explained> rows_interleaved(const Suspect& suspect, const Evidence&) {
  if (!suspect.same_dtype() || suspect.want->shape.empty()) return std::nullopt;
  const std::int64_t rows = suspect.want->shape.front();
  if (rows < 4 || rows % 2 != 0) return std::nullopt;
  const std::int64_t width = element_count(suspect.want->shape) / rows;
  return if_whole(
      suspect,
      [&](std::int64_t i) {
        const std::int64_t row = i / width;
        return suspect.want_bits((row / 2 + row % 2 * (rows / 2)) * width + i % width);
      },
      "the second half lies between the rows of the first");
}

// ---- of a model's layers and experts

// "layers.0.experts.1.fc1.weight" -> what stands before and behind the number after `word`.
std::optional<std::pair<std::string, std::string>> around_number(const std::string& name,
                                                                 std::string_view word) {
  const std::size_t at = name.find(word);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t behind = name.find('.', at + word.size());
  if (behind == std::string::npos) return std::nullopt;
  return std::pair(name.substr(0, at + word.size()), name.substr(behind));
}

// The tensor is, bit for bit, the one whose name has another number after `word`.
Trial of_another(const char* word) {
  return [word](const Suspect& suspect, const Evidence& evidence) -> std::optional<Explained> {
    if (!suspect.same_dtype()) return std::nullopt;
    const auto own = around_number(suspect.key.name, word);
    if (!own) return std::nullopt;
    std::optional<Explained> explained;
    for (const auto& [key, other] : evidence.want->state.tensors) {
      if (key.part != suspect.key.part || key.name == suspect.key.name ||
          around_number(key.name, word) != own || other.dtype != suspect.got->dtype ||
          other.shape != suspect.got->shape) {
        continue;
      }
      if (other.bytes == suspect.got->bytes) return Explained{suspect.count(), "is " + key.name};
      explained = Explained{0, ""};
    }
    return explained;
  };
}

}  // namespace

std::vector<Hypothesis> placement_hypotheses() {
  return {
      {"rank order ignored", rank_order_ignored},
      {"offset of an even shard", offset_of_even_shard},
      {"padding taken for rows", padding_taken_for_rows},
      {"another expert's", of_another("experts.")},
      {"another layer's", of_another("layers.")},
      {"columns taken for rows", columns_taken_for_rows},
      {"rows interleaved", rows_interleaved},
  };
}

}  // namespace resumecheck
