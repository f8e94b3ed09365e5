// The part of a global tensor that one rank holds: offsets and sizes, one of each a dimension. A
// box never reaches outside its tensor, and a 0-dimensional tensor has one box, which holds its
// single element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace resumecheck {

using Shape = std::vector<std::int64_t>;

// 1 for a 0-dimensional tensor; throws Error(harness) where it exceeds 63 bits or a size is
// negative.
std::int64_t element_count(const Shape& shape);
std::string to_text(const Shape& shape);  // "[512, 256]"

class Box {
 public:
  Box() = default;  // the box of a 0-dimensional tensor
  Box(Shape offsets,
      Shape sizes);  // throws Error(harness) on negative numbers or different lengths
  static Box whole(const Shape& shape);

  const Shape& offsets() const { return offsets_; }
  const Shape& sizes() const { return sizes_; }
  std::int64_t element_count() const;
  bool empty() const { return element_count() == 0; }
  bool inside(const Shape& global) const;
  std::optional<Box> intersection(const Box& other) const;  // nothing where they share no element
  bool operator==(const Box&) const = default;

 private:
  Shape offsets_;
  Shape sizes_;
};

std::string to_text(const Box& box);  // "[128:256, 0:64]"

// Copies the elements of `region` from a row-major buffer that holds `from_box` to one that holds
// `onto_box`. region must lie in both. element_size in bytes.
void copy_region(const Box& region, const Box& from_box, std::span<const std::byte> from,
                 const Box& onto_box, std::span<std::byte> onto, std::size_t element_size);

// Row runs: the longest stretches of `region` that are contiguous in both boxes, in row-major order
// of the region, as flat element indices into each box. region must lie in both.
using RunVisitor =
    std::function<void(std::int64_t in_first, std::int64_t in_second, std::int64_t length)>;
void for_each_run(const Box& region, const Box& first, const Box& second, const RunVisitor& visit);

// The same against the whole tensor: visit(flat_index_in_box, flat_index_in_tensor, run_length).
void for_each_run(const Box& box, const Shape& global, const RunVisitor& visit);

// Flat index of the region's first element in a row-major buffer that holds `box`.
std::int64_t first_index(const Box& region, const Box& box);

// `box` without `hole`, as disjoint boxes: {box} where they share nothing, nothing where hole
// covers it.
std::vector<Box> difference(const Box& box, const Box& hole);

}  // namespace resumecheck
