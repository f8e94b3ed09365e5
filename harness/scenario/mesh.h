// Mesh algebra: named dims and sizes ("dp4", "rep2dp2"), which rank sits where, and which box of a
// parameter each rank holds. Ranks are row-major over the dims as written, the first dim slowest.
// Shards split as torch.chunk does: ceil(n/k) each, the last ones shorter or empty.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/state/box.h"

namespace resumecheck {

struct MeshDim {
  std::string name;  // rep or dp (tp, pp, cp, ep are words of the language, not yet runnable)
  int size = 1;
  bool operator==(const MeshDim&) const = default;
};

class Mesh {
 public:
  // Throws Error(usage): unknown dim, a dim twice, size 0, a size without a name, more than 8
  // ranks, empty text.
  static Mesh parse(std::string_view text);

  int world() const;
  const std::vector<MeshDim>& dims() const { return dims_; }
  int size_of(std::string_view dim) const;  // 1 where the mesh has no such dim
  std::map<std::string, int> coordinates(int rank) const;
  std::string text() const;  // as written
  bool operator==(const Mesh&) const = default;

 private:
  std::vector<MeshDim> dims_;
};

// The rows [first, last) that shard `index` of `count` holds of `rows`.
struct Rows {
  std::int64_t first = 0;
  std::int64_t last = 0;
};
Rows chunk(std::int64_t rows, int count, int index);

// The box of a parameter that `rank` holds: dimension 0 is sharded over dp, everything is
// replicated over rep.
Box parameter_box(const Shape& global, const Mesh& mesh, int rank);

}  // namespace resumecheck
