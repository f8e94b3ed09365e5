#include "harness/scenario/mesh.h"

#include <algorithm>

#include "harness/scenario/nearest_name.h"
#include "harness/scenario/one_line.h"
#include "harness/state/error.h"

namespace resumecheck {
namespace {

constexpr int most_ranks = 8;
const std::vector<std::string> known_dims = {"rep", "dp", "tp", "pp", "cp", "ep"};

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

[[noreturn]] void refuse(std::string_view text, const std::string& what, const std::string& cure) {
  throw Error(Error::Kind::usage, "mesh '" + one_line(text, 40) + "'", one_line(what), cure);
}

template <typename Accepts>
std::string_view take(std::string_view text, std::size_t& at, Accepts accepts) {
  const std::size_t begin = at;
  while (at < text.size() && accepts(text[at])) ++at;
  return text.substr(begin, at - begin);
}

int parse_size(std::string_view mesh, std::string_view name, std::string_view digits) {
  const std::string dim(name);
  if (digits.empty()) refuse(mesh, dim + " has no size", "write " + dim + "2");
  if (digits[0] == '0') {
    refuse(mesh, dim + std::string(digits) + " is no size",
           "sizes are 1 to 8, without zeros ahead");
  }
  if (digits.size() > 3) refuse(mesh, "more than 8 ranks", "cases run on at most 8 ranks");
  return std::stoi(std::string(digits));
}

}  // namespace

Mesh Mesh::parse(std::string_view text) {
  if (text.empty()) refuse(text, "empty", "write a dim and a size, such as dp4 or rep2dp2");
  Mesh mesh;
  int world = 1;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::string name(take(text, at, is_lower));
    const std::string_view digits = take(text, at, is_digit);
    if (name.empty() && digits.empty()) {
      refuse(text, "unexpected character at column " + std::to_string(at + 1),
             "a mesh is dims and sizes without spaces, such as rep2dp2");
    }
    if (name.empty()) {
      refuse(text, "size " + std::string(digits) + " stands without a dim", "write dp4, not 4");
    }
    if (std::find(known_dims.begin(), known_dims.end(), name) == known_dims.end()) {
      refuse(text, "unknown dim '" + name + "'", did_you_mean(name, known_dims));
    }
    if (std::any_of(mesh.dims_.begin(), mesh.dims_.end(),
                    [&](const MeshDim& dim) { return dim.name == name; })) {
      refuse(text, name + " appears twice", "write each dim once");
    }
    const int size = parse_size(text, name, digits);
    world *= size;
    if (world > most_ranks) {
      refuse(text, "more than 8 ranks", "cases run on at most 8 ranks");
    }
    mesh.dims_.push_back({name, size});
  }
  return mesh;
}

int Mesh::world() const {
  int ranks = 1;
  for (const MeshDim& dim : dims_) ranks *= dim.size;
  return ranks;
}

int Mesh::size_of(std::string_view dim) const {
  for (const MeshDim& each : dims_) {
    if (each.name == dim) return each.size;
  }
  return 1;
}

std::map<std::string, int> Mesh::coordinates(int rank) const {
  if (rank < 0 || rank >= world()) {
    throw Error(Error::Kind::harness, "mesh '" + text() + "'",
                "has no rank " + std::to_string(rank));
  }
  std::map<std::string, int> coordinates;
  for (auto dim = dims_.rbegin(); dim != dims_.rend(); ++dim) {
    coordinates[dim->name] = rank % dim->size;
    rank /= dim->size;
  }
  return coordinates;
}

std::string Mesh::text() const {
  std::string text;
  for (const MeshDim& dim : dims_) text += dim.name + std::to_string(dim.size);
  return text;
}

Rows chunk(std::int64_t rows, int count, int index) {
  const std::int64_t each = (rows + count - 1) / count;
  return {std::min(rows, each * index), std::min(rows, each * (index + 1))};
}

Box parameter_box(const Shape& global, const Mesh& mesh, int rank) {
  for (const MeshDim& dim : mesh.dims()) {
    if (dim.name != "rep" && dim.name != "dp" && dim.size > 1) {
      throw Error(Error::Kind::usage, "mesh '" + mesh.text() + "'",
                  dim.name + " says nothing yet about who holds what", "use rep and dp");
    }
  }
  const auto coordinates = mesh.coordinates(rank);
  const auto dp = coordinates.find("dp");
  if (global.empty() || dp == coordinates.end()) return Box::whole(global);
  const Rows rows = chunk(global[0], mesh.size_of("dp"), dp->second);
  Shape offsets(global.size(), 0);
  Shape sizes = global;
  offsets[0] = rows.first;
  sizes[0] = rows.last - rows.first;
  return Box(offsets, sizes);
}

}  // namespace resumecheck
