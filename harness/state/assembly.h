// Ranks -> one logical state. Boxes must cover each tensor, and where two ranks hold the same
// element they must hold the same bits: a replica that disagrees is a failure of its own kind,
// which a comparison of one chosen copy would hide.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/state/state_file.h"

namespace resumecheck {

struct HeldBox {
  int rank = 0;
  Box box;
  bool operator==(const HeldBox&) const = default;
};

struct AssembledState {
  LogicalState state;
  std::string mesh;
  int world = 1;
  std::map<TensorKey, std::vector<HeldBox>> holders;  // by rank, then as given; no empty boxes
};

struct AssemblyProblem {
  enum class Kind { hole, replicas_disagree, description_disagrees, rank_missing };
  Kind kind;
  TensorKey key;        // empty for rank_missing
  std::string message;  // one line: "replicas of moment2.scale of ffn.up disagree: element 17 is
                        // 0x.. on rank 0, 0x.. on rank 2"
};

struct Assembly {
  AssembledState assembled;               // without the tensors that have a hole
  std::vector<AssemblyProblem> problems;  // empty: the state is whole
};

Assembly assemble(const std::vector<RankState>& ranks);

// Reads state_rank0..world-1 from directory. A file that is missing is a problem (rank_missing);
// one that cannot be read is Error(harness).
Assembly read_states(const std::filesystem::path& directory, int world);

}  // namespace resumecheck
