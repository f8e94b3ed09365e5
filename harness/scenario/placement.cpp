#include "harness/scenario/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "harness/state/error.h"

namespace resumecheck {
namespace {

int coordinate(const Mesh& mesh, int rank, const std::string& dim) {
  const auto coordinates = mesh.coordinates(rank);
  const auto found = coordinates.find(dim);
  return found == coordinates.end() ? 0 : found->second;
}

// "3.fc1.weight" -> 3, and "fc1.weight" is left.
std::int64_t take_number(std::string_view& text, std::string_view whole) {
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto digits = static_cast<std::size_t>(end - text.data());
  if (problem != std::errc() || digits >= text.size() || text[digits] != '.') {
    throw Error(Error::Kind::harness, std::string(whole), "is no parameter of a model");
  }
  text.remove_prefix(digits + 1);
  return number;
}

bool take_word(std::string_view& text, std::string_view word) {
  if (text.substr(0, word.size()) != word) return false;
  text.remove_prefix(word.size());
  return true;
}

// The ranks of `dim` that hold item `index` of `count`.
Rows holders_of(std::int64_t count, const Mesh& mesh, const std::string& dim, std::int64_t index) {
  const int ranks = mesh.size_of(dim);
  for (int at = 0; at < ranks; ++at) {
    const Rows held = chunk(count, ranks, at);
    if (index >= held.first && index < held.last) return {at, at + 1};
  }
  return {0, 0};
}

}  // namespace

Box box_of(const Shape& global, const Placement& placement, const Mesh& mesh, int rank) {
  if (!holds(placement, mesh, rank)) return {Shape(global.size(), 0), Shape(global.size(), 0)};
  Shape offsets(global.size(), 0), sizes = global;
  for (const Split& split : placement.splits) {
    if (static_cast<std::size_t>(split.tensor_dim) >= global.size()) continue;
    const auto dim = static_cast<std::size_t>(split.tensor_dim);
    const Rows rows =
        chunk(sizes[dim], mesh.size_of(split.mesh_dim), coordinate(mesh, rank, split.mesh_dim));
    offsets[dim] += rows.first;
    sizes[dim] = rows.last - rows.first;
  }
  return {offsets, sizes};
}

bool holds(const Placement& placement, const Mesh& mesh, int rank) {
  return std::all_of(placement.only_at.begin(), placement.only_at.end(), [&](const auto& only) {
    const int at = coordinate(mesh, rank, only.first);
    return at >= only.second.first && at < only.second.last;
  });
}

ModelPart model_part(std::string_view parameter) {
  ModelPart part;
  std::string_view rest = parameter;
  if (!take_word(rest, "layers.")) {
    throw Error(Error::Kind::harness, std::string(parameter), "is no parameter of a model");
  }
  part.layer = take_number(rest, parameter);
  if (take_word(rest, "experts.")) part.expert = take_number(rest, parameter);
  part.name = rest;
  return part;
}

std::string parameter_name(const Settings::Model& model, std::int64_t layer, std::int64_t expert,
                           std::string_view name) {
  const bool of_expert = model.experts > 0 && name.substr(0, 2) == "fc";
  const bool shared = model.tied && name == "fc1.weight";
  return of_expert ? fmt::format("layers.{}.experts.{}.{}", layer, expert, name)
                   : fmt::format("layers.{}.{}", shared ? 0 : layer, name);
}

Placement placement_of(const Settings& settings, std::string_view parameter, const Mesh& mesh) {
  Placement placement;
  if (settings.model.kind.empty()) {
    placement.splits = {{"dp", 0}};
    return placement;
  }
  const ModelPart part = model_part(parameter);
  if (part.name == "fc1.weight" || part.name == "fc1.bias") placement.splits = {{"tp", 0}};
  if (part.name == "fc2.weight") placement.splits = {{"tp", 1}};
  placement.splits.push_back({"dp", 0});
  const bool shared = settings.model.tied && part.name == "fc1.weight";
  if (mesh.size_of("pp") > 1 && !shared) {
    placement.only_at["pp"] = holders_of(settings.model.layers, mesh, "pp", part.layer);
  }
  if (mesh.size_of("ep") > 1 && part.expert >= 0) {
    placement.only_at["ep"] = holders_of(settings.model.experts, mesh, "ep", part.expert);
  }
  return placement;
}

Rows layers_at(const Settings::Model& model, const Mesh& mesh, int rank) {
  return chunk(model.layers, mesh.size_of("pp"), coordinate(mesh, rank, "pp"));
}

Rows experts_at(const Settings::Model& model, const Mesh& mesh, int rank) {
  return chunk(std::max<std::int64_t>(model.experts, 1), mesh.size_of("ep"),
               coordinate(mesh, rank, "ep"));
}

}  // namespace resumecheck
