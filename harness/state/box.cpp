#include "harness/state/box.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "harness/state/error.h"

namespace resumecheck {
namespace {

Error bad_box(const Shape& offsets, const Shape& sizes, const std::string& what) {
  return Error(
      Error::Kind::harness, "",
      fmt::format("box with offsets {} and sizes {} {}", to_text(offsets), to_text(sizes), what));
}

// Elements from one index of each dimension to the next, in a row-major buffer of these sizes.
Shape strides(const Shape& sizes) {
  Shape result(sizes.size(), 1);
  for (std::size_t d = sizes.size(); d-- > 1;) result[d - 1] = result[d] * sizes[d];
  return result;
}

// The outermost dimension of a run: all those behind it are whole in the region and in both boxes.
std::size_t run_dimension(const Box& region, const Box& first, const Box& second) {
  std::size_t d = region.sizes().size() - 1;
  while (d > 0 && region.sizes()[d] == first.sizes()[d] && region.sizes()[d] == second.sizes()[d]) {
    --d;
  }
  return d;
}

// Steps to the next row over dimensions [0, count); false after the last.
bool advance(Shape& index, const Shape& sizes, std::size_t count) {
  for (std::size_t d = count; d-- > 0;) {
    if (++index[d] < sizes[d]) return true;
    index[d] = 0;
  }
  return false;
}

}  // namespace

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) {
      throw Error(Error::Kind::harness, "", "shape " + to_text(shape) + " has a negative size");
    }
    if (size == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(count, size, &count)) {
      throw Error(Error::Kind::harness, "",
                  "shape " + to_text(shape) + " has more elements than 63 bits can count");
    }
  }
  return empty ? 0 : count;
}

std::string to_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Box::Box(Shape offsets, Shape sizes) : offsets_(std::move(offsets)), sizes_(std::move(sizes)) {
  if (offsets_.size() != sizes_.size()) {
    throw bad_box(offsets_, sizes_, "does not have one of each a dimension");
  }
  for (std::size_t d = 0; d < sizes_.size(); ++d) {
    std::int64_t end = 0;
    if (offsets_[d] < 0 || sizes_[d] < 0) throw bad_box(offsets_, sizes_, "has a negative number");
    if (__builtin_add_overflow(offsets_[d], sizes_[d], &end)) {
      throw bad_box(offsets_, sizes_, "ends beyond 63 bits");
    }
  }
  resumecheck::element_count(sizes_);
}

Box Box::whole(const Shape& shape) { return Box(Shape(shape.size(), 0), shape); }

std::int64_t Box::element_count() const { return resumecheck::element_count(sizes_); }

bool Box::inside(const Shape& global) const {
  if (global.size() != sizes_.size()) return false;
  for (std::size_t d = 0; d < global.size(); ++d) {
    if (offsets_[d] + sizes_[d] > global[d]) return false;
  }
  return true;
}

std::optional<Box> Box::intersection(const Box& other) const {
  if (other.sizes_.size() != sizes_.size()) return std::nullopt;
  Shape offsets(sizes_.size());
  Shape sizes(sizes_.size());
  for (std::size_t d = 0; d < sizes_.size(); ++d) {
    offsets[d] = std::max(offsets_[d], other.offsets_[d]);
    sizes[d] = std::min(offsets_[d] + sizes_[d], other.offsets_[d] + other.sizes_[d]) - offsets[d];
    if (sizes[d] <= 0) return std::nullopt;
  }
  return Box(std::move(offsets), std::move(sizes));
}

std::string to_text(const Box& box) {
  std::string text;
  for (std::size_t d = 0; d < box.sizes().size(); ++d) {
    const std::int64_t begin = box.offsets()[d];
    text += fmt::format("{}{}:{}", d == 0 ? "" : ", ", begin, begin + box.sizes()[d]);
  }
  return "[" + text + "]";
}

std::int64_t first_index(const Box& region, const Box& box) {
  const Shape stride = strides(box.sizes());
  std::int64_t index = 0;
  for (std::size_t d = 0; d < stride.size(); ++d) {
    index += (region.offsets()[d] - box.offsets()[d]) * stride[d];
  }
  return index;
}

void for_each_run(const Box& region, const Box& first, const Box& second, const RunVisitor& visit) {
  if (region.empty()) return;
  if (region.sizes().empty()) {
    visit(0, 0, 1);
    return;
  }
  assert(region.intersection(first) == region && region.intersection(second) == region);
  const std::size_t run_dim = run_dimension(region, first, second);
  const Shape in_first = strides(first.sizes());
  const Shape in_second = strides(second.sizes());
  const std::int64_t base_first = first_index(region, first);
  const std::int64_t base_second = first_index(region, second);
  const std::int64_t length = region.sizes()[run_dim] * in_first[run_dim];
  Shape index(run_dim, 0);
  do {
    std::int64_t at_first = base_first;
    std::int64_t at_second = base_second;
    for (std::size_t d = 0; d < run_dim; ++d) {
      at_first += index[d] * in_first[d];
      at_second += index[d] * in_second[d];
    }
    visit(at_first, at_second, length);
  } while (advance(index, region.sizes(), run_dim));
}

void for_each_run(const Box& box, const Shape& global, const RunVisitor& visit) {
  for_each_run(box, box, Box::whole(global), visit);
}

void copy_region(const Box& region, const Box& from_box, std::span<const std::byte> from,
                 const Box& onto_box, std::span<std::byte> onto, std::size_t element_size) {
  for_each_run(region, from_box, onto_box,
               [&](std::int64_t in_from, std::int64_t in_onto, std::int64_t length) {
                 std::memcpy(onto.data() + in_onto * element_size,
                             from.data() + in_from * element_size, length * element_size);
               });
}

std::vector<Box> difference(const Box& box, const Box& hole) {
  const std::optional<Box> shared = box.intersection(hole);
  if (box.empty()) return {};
  if (!shared) return {box};
  std::vector<Box> rest;
  Shape offsets = box.offsets();
  Shape sizes = box.sizes();
  // Peels off, dimension by dimension, what lies before and behind the shared part.
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const std::int64_t begin = shared->offsets()[d];
    const std::int64_t end = begin + shared->sizes()[d];
    const std::int64_t box_end = offsets[d] + sizes[d];
    const auto peel = [&](std::int64_t from, std::int64_t to) {
      if (from == to) return;
      Shape peeled_offsets = offsets;
      Shape peeled_sizes = sizes;
      peeled_offsets[d] = from;
      peeled_sizes[d] = to - from;
      rest.emplace_back(std::move(peeled_offsets), std::move(peeled_sizes));
    };
    peel(offsets[d], begin);
    peel(end, box_end);
    offsets[d] = begin;
    sizes[d] = end - begin;
  }
  return rest;
}

}  // namespace resumecheck
