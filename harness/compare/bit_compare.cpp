#include "harness/compare/bit_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "harness/compare/element.h"

namespace resumecheck {
namespace {

constexpr std::int64_t kChunk = 1024;  // elements that one memcmp settles

bool has_one_element_a_block(const TensorKey& key, const LogicalTensor& tensor) {
  return tensor.block > 0 && key.part.ends_with(".scale");
}

// Elements of this tensor that belong to one quantisation block.
std::int64_t elements_a_block(const TensorKey& key, const LogicalTensor& tensor) {
  return has_one_element_a_block(key, tensor) ? 1 : tensor.block;
}

Difference about(const TensorKey& key, Difference::Kind kind, std::string want, std::string got) {
  Difference difference;
  difference.key = key;
  difference.kind = kind;
  difference.want = std::move(want);
  difference.got = std::move(got);
  return difference;
}

std::string tensor_text(const LogicalTensor& tensor) {
  return std::string(name_of(tensor.dtype)) + " " + to_text(tensor.shape);
}

void note_element(Difference& difference, std::int64_t index, const std::byte* want,
                  const std::byte* got, Dtype dtype, std::int64_t block_elements,
                  std::int64_t& last_block) {
  const std::uint64_t want_bits = load_bits(want, dtype);
  const std::uint64_t got_bits = load_bits(got, dtype);
  if (difference.differing++ == 0) {
    difference.first_index = index;
    difference.want = element_text(want_bits, dtype);
    difference.got = element_text(got_bits, dtype);
  }
  if (is_float(dtype)) {
    difference.largest_ulp =
        std::max(difference.largest_ulp, ulps_between(want_bits, got_bits, dtype));
  }
  if (block_elements > 0 && index / block_elements != last_block) {
    last_block = index / block_elements;
    ++difference.differing_blocks;
    if (difference.first_block < 0) difference.first_block = last_block;
  }
}

std::optional<Difference> compare_bytes(const TensorKey& key, const LogicalTensor& want,
                                        const LogicalTensor& got) {
  const std::size_t length = want.bytes.size();
  if (length == 0 || std::memcmp(want.bytes.data(), got.bytes.data(), length) == 0) {
    return std::nullopt;
  }
  Difference difference = about(key, Difference::Kind::bytes, "", "");
  const auto size = static_cast<std::int64_t>(size_of(want.dtype));
  const std::int64_t block_elements = elements_a_block(key, want);
  difference.elements = element_count(want.shape);
  difference.block = want.block;
  if (block_elements > 0) {
    difference.blocks = (difference.elements + block_elements - 1) / block_elements;
  }
  std::int64_t last_block = -1;
  for (std::int64_t begin = 0; begin < difference.elements; begin += kChunk) {
    const std::int64_t end = std::min(begin + kChunk, difference.elements);
    const std::byte* one = want.bytes.data() + begin * size;
    const std::byte* two = got.bytes.data() + begin * size;
    if (std::memcmp(one, two, (end - begin) * size) == 0) continue;
    for (std::int64_t i = begin; i < end; ++i, one += size, two += size) {
      if (std::memcmp(one, two, size) == 0) continue;
      note_element(difference, i, one, two, want.dtype, block_elements, last_block);
    }
  }
  return difference;
}

std::optional<Difference> compare_tensors(const TensorKey& key, const LogicalTensor& want,
                                          const LogicalTensor& got) {
  using Kind = Difference::Kind;
  std::optional<Difference> difference;
  if (want.shape != got.shape) {
    difference = about(key, Kind::shape, to_text(want.shape), to_text(got.shape));
  } else if (want.dtype != got.dtype) {
    difference =
        about(key, Kind::dtype, std::string(name_of(want.dtype)), std::string(name_of(got.dtype)));
  } else if (want.block != got.block) {
    difference = about(key, Kind::block, fmt::format("block {}", want.block),
                       fmt::format("block {}", got.block));
  } else {
    return compare_bytes(key, want, got);
  }
  difference->elements = element_count(want.shape);
  difference->block = want.block;
  return difference;
}

// 1 and 1.0 and "1" are three values, and so are 0.0 and -0.0; a NaN is itself.
bool same_value(const Value& want, const Value& got) {
  if (want.index() != got.index()) return false;
  const double* one = std::get_if<double>(&want);
  const double* two = std::get_if<double>(&got);
  return one != nullptr ? std::memcmp(one, two, sizeof *one) == 0 : want == got;
}

std::string typed_text(const Value& value) {
  static constexpr const char* kTypes[] = {"true or false", "integer", "number", "text"};
  return fmt::format("{} ({})", to_text(value), kTypes[value.index()]);
}

Difference value_difference(const TensorKey& key, const Value& want, const Value& got) {
  const bool same_text = to_text(want) == to_text(got);
  Difference difference =
      about(key, Difference::Kind::value, same_text ? typed_text(want) : to_text(want),
            same_text ? typed_text(got) : to_text(got));
  difference.elements = 1;
  difference.differing = 1;
  return difference;
}

template <typename Map, typename IsSelected>
auto selected_keys(const Map& want, const Map& got, const IsSelected& is_selected) {
  std::set<typename Map::key_type> keys;
  for (const Map* side : {&want, &got}) {
    for (const auto& entry : *side) {
      if (is_selected(entry.first)) keys.insert(entry.first);
    }
  }
  return keys;
}

template <typename Map>
const typename Map::mapped_type* find(const Map& map, const typename Map::key_type& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

// "moment1" where the part says how a moment is stored, "" for every other part.
std::string stored_moment(const std::string& part) {
  for (const std::string_view kind : {".codes", ".scale", ".codebook", ".values"}) {
    if (part.ends_with(kind)) return part.substr(0, part.size() - kind.size());
  }
  return "";
}

// The moments of which one side has codes and no values, the other values and no codes.
class StorageWidths {
 public:
  StorageWidths(const LogicalState& want, const LogicalState& got) : want_(want), got_(got) {}

  std::optional<Difference> difference(const TensorKey& key) const {
    const std::string moment = stored_moment(key.part);
    if (moment.empty()) return std::nullopt;
    const LogicalTensor* codes[] = {find(want_.tensors, {key.name, moment + ".codes"}),
                                    find(got_.tensors, {key.name, moment + ".codes"})};
    const LogicalTensor* values[] = {find(want_.tensors, {key.name, moment + ".values"}),
                                     find(got_.tensors, {key.name, moment + ".values"})};
    for (const int here : {0, 1}) {
      const int there = 1 - here;
      if (codes[here] == nullptr || values[here] != nullptr || codes[there] != nullptr ||
          values[there] == nullptr) {
        continue;
      }
      const std::string quantised = "codes, " + tensor_text(*codes[here]);
      const std::string plain = "values, " + tensor_text(*values[there]);
      Difference difference = about({key.name, moment}, Difference::Kind::storage_width,
                                    here == 0 ? quantised : plain, here == 0 ? plain : quantised);
      difference.elements = difference.differing = element_count(codes[here]->shape);
      difference.block = codes[here]->block;
      return difference;
    }
    return std::nullopt;
  }

 private:
  const LogicalState& want_;
  const LogicalState& got_;
};

void tally(Comparison& comparison, const std::string& part, std::optional<Difference> difference) {
  PartTally& part_tally = comparison.parts[part];
  ++part_tally.total;
  if (!difference) {
    ++part_tally.same;
  } else {
    comparison.differences.push_back(std::move(*difference));
  }
}

}  // namespace

Comparison compare(const LogicalState& want, const LogicalState& got,
                   const std::vector<std::string>& parts) {
  using Kind = Difference::Kind;
  Comparison comparison;
  const auto selected_tensor = [&](const TensorKey& key) { return selects(parts, key.part); };
  const StorageWidths widths(want, got);
  for (const TensorKey& key : selected_keys(want.tensors, got.tensors, selected_tensor)) {
    const LogicalTensor* one = find(want.tensors, key);
    const LogicalTensor* two = find(got.tensors, key);
    if (std::optional<Difference> width = widths.difference(key)) {
      const auto& told = comparison.differences;
      if (told.empty() || told.back().key != width->key) {
        const std::string moment = width->key.part;
        tally(comparison, moment, std::move(width));
      }
    } else if (one == nullptr) {
      tally(comparison, key.part, about(key, Kind::extra, "absent", tensor_text(*two)));
    } else if (two == nullptr) {
      tally(comparison, key.part, about(key, Kind::missing, tensor_text(*one), "absent"));
    } else {
      ++comparison.tensors;
      comparison.bytes += static_cast<std::int64_t>(one->bytes.size());
      tally(comparison, key.part, compare_tensors(key, *one, *two));
    }
  }
  const auto selected_value = [&](const std::string& name) {
    return selects(parts, value_part(name));
  };
  for (const std::string& name : selected_keys(want.values, got.values, selected_value)) {
    const Value* one = find(want.values, name);
    const Value* two = find(got.values, name);
    const TensorKey key = {name, "value"};
    std::optional<Difference> difference;
    if (one == nullptr) {
      difference = about(key, Kind::extra, "absent", to_text(*two));
    } else if (two == nullptr) {
      difference = about(key, Kind::missing, to_text(*one), "absent");
    } else {
      ++comparison.values;
      if (!same_value(*one, *two)) difference = value_difference(key, *one, *two);
    }
    tally(comparison, value_part(name), std::move(difference));
  }
  return comparison;
}

}  // namespace resumecheck
