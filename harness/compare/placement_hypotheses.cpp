#include "harness/compare/placement_hypotheses.h"

#include <fmt/format.h>

namespace resumecheck {
namespace {

// The boxes of the mesh that loaded, each once, in the order of the ranks.
std::vector<Box> boxes_of(const Suspect& suspect, const Evidence& evidence) {
  std::vector<Box> boxes;
  const auto found = evidence.got->holders.find(suspect.key);
  if (found == evidence.got->holders.end()) return boxes;
  for (const HeldBox& held : found->second) {
    if (held.box.empty() || !held.box.inside(suspect.want->shape)) continue;
    if (std::find(boxes.begin(), boxes.end(), held.box) == boxes.end()) boxes.push_back(held.box);
  }
  return boxes;
}

bool begins_before(const Box& one, const Box& other) { return one.offsets() < other.offsets(); }

bool applies(const Suspect& suspect) {
  return suspect.same_dtype() && suspect.want->shape == suspect.got->shape &&
         !suspect.want->shape.empty();
}

Bytes content(const LogicalTensor& tensor, const Box& box) {
  const std::size_t size = size_of(tensor.dtype);
  Bytes bytes(static_cast<std::size_t>(box.element_count()) * size);
  copy_region(box, Box::whole(tensor.shape), tensor.bytes, box, bytes, size);
  return bytes;
}

// Every box is another one of the same size, as the order of the tensor says.
std::optional<Explained> rank_order_ignored(const Suspect& suspect, const Evidence& evidence) {
  if (!applies(suspect)) return std::nullopt;
  const std::vector<Box> boxes = boxes_of(suspect, evidence);
  std::vector<Box> sorted = boxes;
  std::sort(sorted.begin(), sorted.end(), begins_before);
  if (boxes == sorted) return std::nullopt;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    if (boxes[i].sizes() != sorted[i].sizes() ||
        content(*suspect.got, boxes[i]) != content(*suspect.want, sorted[i])) {
      return Explained{0, ""};
    }
  }
  return Explained{suspect.count(), "strided shards were taken as contiguous ones"};
}

// Boxes that are rows of the tensor, in its order.
std::vector<Box> shards_of_rows(const Suspect& suspect, const Evidence& evidence) {
  std::vector<Box> boxes = boxes_of(suspect, evidence);
  const Shape& shape = suspect.want->shape;
  for (const Box& box : boxes) {
    if (!std::equal(shape.begin() + 1, shape.end(), box.sizes().begin() + 1)) return {};
  }
  std::sort(boxes.begin(), boxes.end(), begins_before);
  return boxes;
}

std::optional<Explained> offset_of_an_even_shard(const Suspect& suspect, const Evidence& evidence) {
  if (!applies(suspect)) return std::nullopt;
  const std::vector<Box> shards = shards_of_rows(suspect, evidence);
  if (shards.size() < 2 || shards.front().sizes() == shards.back().sizes()) return std::nullopt;
  const std::int64_t each = shards.front().sizes()[0];
  for (std::int64_t shorter = each - 1; shorter > 0; --shorter) {
    bool all = true;
    for (std::size_t i = 0; all && i < shards.size(); ++i) {
      Shape offsets = shards[i].offsets();
      offsets[0] = static_cast<std::int64_t>(i) * shorter;
      all = content(*suspect.got, shards[i]) ==
            content(*suspect.want, Box(offsets, shards[i].sizes()));
    }
    if (all) {
      return Explained{suspect.count(),
                       fmt::format("shard i was read from row {} i, not {} i", shorter, each)};
    }
  }
  return Explained{0, ""};
}

std::optional<Explained> padding_taken_for_rows(const Suspect& suspect, const Evidence& evidence) {
  if (!applies(suspect)) return std::nullopt;
  const std::vector<Box> shards = shards_of_rows(suspect, evidence);
  if (shards.size() < 2) return std::nullopt;
  const Box& last = shards.back();
  const std::int64_t padding = shards.front().sizes()[0] - last.sizes()[0];
  if (padding <= 0) return std::nullopt;
  const std::int64_t row = element_count(suspect.want->shape) / suspect.want->shape[0];
  const std::int64_t first = last.offsets()[0] * row;
  return if_whole(
      suspect,
      [&](std::int64_t i) {
        if (i < first) return suspect.want_bits(i);
        const std::int64_t before = i - padding * row;
        return before < first ? std::uint64_t{0} : suspect.want_bits(before);
      },
      "the last shard begins with zeros");
}

// The number in a name behind a word is another: "layers.1.fc1.weight" has what layers.0's is.
std::optional<Explained> another_ones(const Suspect& suspect, const Evidence& evidence,
                                      const std::string& word) {
  const std::string& name = suspect.key.name;
  const std::size_t at = name.find(word);
  if (!applies(suspect) || at == std::string::npos) return std::nullopt;
  const std::size_t begin = at + word.size(), end = name.find('.', begin);
  if (end == std::string::npos) return std::nullopt;
  bool any = false;
  for (int other = 0; other < 8; ++other) {
    const std::string number = std::to_string(other);
    if (number == name.substr(begin, end - begin)) continue;
    const TensorKey key = {name.substr(0, begin) + number + name.substr(end), suspect.key.part};
    const LogicalTensor* tensor = find(evidence.want->state, key);
    any = any || tensor != nullptr;
    if (tensor != nullptr && tensor->bytes == suspect.got->bytes) {
      return Explained{suspect.count(), "it is that of " + key.name};
    }
  }
  return any ? std::optional(Explained{0, ""}) : std::nullopt;
}

std::optional<Explained> another_experts(const Suspect& suspect, const Evidence& evidence) {
  return another_ones(suspect, evidence, ".experts.");
}

std::optional<Explained> another_layers(const Suspect& suspect, const Evidence& evidence) {
  return another_ones(suspect, evidence, "layers.");
}

std::optional<Explained> columns_taken_for_rows(const Suspect& suspect, const Evidence&) {
  if (!applies(suspect) || suspect.want->shape.size() != 2) return std::nullopt;
  const std::int64_t rows = suspect.want->shape[0], columns = suspect.want->shape[1];
  for (const std::int64_t shards : {2, 3, 4, 6, 8}) {
    const std::int64_t width = columns / shards;
    if (columns % shards != 0 || rows == 1) continue;
    const auto explained = if_whole(suspect, [&](std::int64_t i) {
      const std::int64_t shard = i / (rows * width), in_shard = i % (rows * width);
      return suspect.want_bits(in_shard / width * columns + shard * width + in_shard % width);
    });
    if (explained->elements > 0) {
      return Explained{explained->elements, fmt::format("{} shards of columns, joined one behind "
                                                        "the other",
                                                        shards)};
    }
  }
  return Explained{0, ""};
}

std::optional<Explained> rows_interleaved(const Suspect& suspect, const Evidence&) {
  if (!applies(suspect)) return std::nullopt;
  const std::int64_t rows = suspect.want->shape[0];
  if (rows < 4 || rows % 2 != 0) return std::nullopt;
  const std::int64_t row = element_count(suspect.want->shape) / rows;
  return if_whole(
      suspect,
      [&](std::int64_t i) {
        const std::int64_t at = i / row;
        return suspect.want_bits((at % 2 * (rows / 2) + at / 2) * row + i % row);
      },
      "the two halves' rows take turns");
}

}  // namespace

std::vector<Hypothesis> placement_hypotheses() {
  return {
      {"rank order ignored", rank_order_ignored},
      {"offset of an even shard", offset_of_an_even_shard},
      {"padding taken for rows", padding_taken_for_rows},
      {"another expert's", another_experts},
      {"another layer's", another_layers},
      {"columns taken for rows", columns_taken_for_rows},
      {"rows interleaved", rows_interleaved},
  };
}

}  // namespace resumecheck
