// The boundary between adapters and the harness: one safetensors file a rank,
// state_rank<k>.safetensors, which says of every tensor which global tensor and which box of it it
// is. The schema (metadata entry "resumecheck", JSON):
// {"schema": 1, "rank": k, "world": n, "mesh": "dp4", "coordinates": {"dp": 2}, "step": 3,
//  "tensors": {KEY: {"name": FQN, "part": PART, "dtype": D, "global_shape": [...], "offsets":
//  [...], "shape": [...], "block": 256}}, "values": {NAME: scalar or string}}
// A number that JSON has no word for is {"nonfinite": "nan" | "inf" | "-inf"}. KEY is
// "<name>/<part>", or "<name>/<part>/<k>" where a rank holds several boxes of one tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "harness/state/logical_state.h"

namespace resumecheck {

struct Piece {  // one box of one tensor
  TensorKey key;
  Dtype dtype = Dtype::f32;
  Shape global_shape;
  Box box;
  std::int64_t block = 0;
  Bytes bytes;  // row-major, of the box
};

struct RankState {
  int rank = 0;
  int world = 1;
  std::string mesh;                        // as written: "rep2dp2"
  std::map<std::string, int> coordinates;  // {"rep": 1, "dp": 0}
  std::int64_t step = 0;
  std::vector<Piece> pieces;
  std::map<std::string, Value> values;
};

std::string state_file_name(int rank);  // "state_rank3.safetensors"

// Writes directory/state_rank<k>.safetensors whole or not at all (temporary file, rename). Creates
// directory. Without fsync: a case writes dozens of them, and nobody reads them after a power loss.
void write_rank_state(const std::filesystem::path& directory, const RankState& state);

// Strict: every tensor described, lengths and boxes consistent. Throws Error(harness) naming file
// and place.
RankState read_rank_state(const std::filesystem::path& file);

// Writes a whole logical state as one ordinary safetensors file (keys "<name>/<part>"): the
// want/got artifacts.
void write_logical_state(const std::filesystem::path& file, const LogicalState& state);

}  // namespace resumecheck
