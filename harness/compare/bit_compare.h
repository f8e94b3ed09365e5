// Bytes against bytes, never after dequantising, never with a tolerance. Says which tensor, block
// and element differ first, how many, and how far in ulps, and counts what is the same per part.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/state/logical_state.h"

namespace resumecheck {

struct Difference {
  enum class Kind { missing, extra, dtype, shape, block, storage_width, bytes, value };
  Kind kind = Kind::bytes;
  TensorKey key;  // for values: name = the value's name, part = "value"; for storage_width: part =
                  // the moment
  std::int64_t elements = 0;
  std::int64_t differing = 0;     // elements whose bytes differ
  std::int64_t first_index = -1;  // flattened global index of the first
  std::int64_t block = 0;         // elements a block (scale tensors: one element a block)
  std::int64_t blocks = 0, differing_blocks = 0, first_block = -1;
  std::uint64_t largest_ulp = 0;  // floating-point tensors only
  std::string want,
      got;  // of the first element: "0x3d1c4321  0.03815"; or the two dtypes, shapes, values
};

struct PartTally {
  std::int64_t same = 0;
  std::int64_t total = 0;
};

struct Comparison {
  std::vector<Difference> differences;     // in key order, then values by name
  std::map<std::string, PartTally> parts;  // tensors and values a part
  std::int64_t tensors = 0;                // compared on both sides
  std::int64_t values = 0;                 // compared on both sides
  std::int64_t bytes = 0;
  bool same() const { return differences.empty(); }
};

// A moment that is codes on one side and values on the other is one difference (storage_width), not
// one for each tensor. Both states' bytes must have the length that dtype and shape give. Only what
// `parts` selects; values are compared where their name's part is selected ("lr", "param_group").
Comparison compare(const LogicalState& want, const LogicalState& got,
                   const std::vector<std::string>& parts);

}  // namespace resumecheck
