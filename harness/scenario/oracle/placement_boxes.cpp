// Reads a mesh, a shape and splits a line, such as "dp2tp2 5,4 tp:0,dp:0", and answers with the box
// of every rank in order, as JSON, offsets before sizes. placement_oracle_test.py asks torch for
// the offsets of a DTensor there.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "harness/scenario/placement.h"

namespace {

using namespace resumecheck;

Shape shape_of(const std::string& text) {
  Shape shape;
  std::istringstream in(text);
  for (std::string size; std::getline(in, size, ',');) shape.push_back(std::stoll(size));
  return shape;
}

Placement splits_of(const std::string& text) {
  Placement placement;
  std::istringstream in(text);
  for (std::string split; std::getline(in, split, ',');) {
    const std::size_t colon = split.find(':');
    placement.splits.push_back({split.substr(0, colon), std::stoi(split.substr(colon + 1))});
  }
  return placement;
}

}  // namespace

int main() {
  for (std::string mesh_text, shape, splits; std::cin >> mesh_text >> shape >> splits;) {
    const Mesh mesh = Mesh::parse(mesh_text);
    nlohmann::json boxes = nlohmann::json::array();
    for (int rank = 0; rank < mesh.world(); ++rank) {
      const Box box = box_of(shape_of(shape), splits_of(splits), mesh, rank);
      boxes.push_back({box.offsets(), box.sizes()});
    }
    std::puts(boxes.dump().c_str());
  }
}
