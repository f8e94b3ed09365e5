// Settings that the reference's tests share: one parameter of each kind that a shard boundary can
// meet.
#pragma once

#include "harness/scenario/settings.h"

namespace resumecheck {

// Rows that are whole blocks; blocks that dp2 to dp5 cut, some of them more than once; fewer rows
// than ranks; a parameter off the block grid, one below the threshold, one that is replicated.
inline Settings settings_with_every_shape() {
  Settings settings;
  settings.seed = 7;
  settings.parameters = {
      {"whole_rows", {32, 256}},
      {"cut", {64, 100}},
      {"tall_and_cut", {512, 9}},
      {"few_rows", {3, 4096}},
      {"off_grid", {5000}},
      {"small", {7}},
      {"scalar", {}},
      {"one_block_in_many", {4096}},
  };
  settings.save_after = 3;
  settings.train_until = 5;
  return settings;
}

}  // namespace resumecheck
