// Which box of a tensor each rank holds. Two things decide it and are easily taken for one another:
// in which order the dims split the tensor, and in which order the mesh is written, which only says
// which rank sits where. A shard that is split by dp after tp lies in strides over the ranks of
// dp2tp2 and contiguously over those of tp2dp2; a loader that confuses the two gives every rank
// another rank's rows.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/scenario/mesh.h"
#include "harness/scenario/settings.h"

namespace resumecheck {

struct Split {
  std::string mesh_dim;
  int tensor_dim = 0;
  bool operator==(const Split&) const = default;
};

struct Placement {
  std::vector<Split> splits;  // in this order, each as chunk() of what the ones before left
  std::map<std::string, Rows> only_at;  // mesh dim -> the coordinates whose ranks hold it at all
};

// Empty where the rank holds nothing.
Box box_of(const Shape& global, const Placement& placement, const Mesh& mesh, int rank);
bool holds(const Placement& placement, const Mesh& mesh, int rank);  // a box, be it empty

// Of a parameter. Names and shapes: dp splits dimension 0. In a model tp splits fc1 by its rows and
// fc2.weight by its columns, dp then dimension 0 of what tp left (as FSDP shards what tensor
// parallelism left), pp the layers and ep the experts in their order; rep and cp replicate.
// parameter: an FQN of the settings.
Placement placement_of(const Settings& settings, std::string_view parameter, const Mesh& mesh);

// What a model's part is of: "layers.3.experts.1.fc1.weight" is fc1.weight of expert 1 of layer 3.
struct ModelPart {
  std::int64_t layer = 0;
  std::int64_t expert = -1;  // -1: of the layer itself
  std::string name;          // "norm.weight", "fc1.bias", ...
};
ModelPart model_part(std::string_view parameter);

// The FQN of a part as it is stored: "fc1.weight" of layer 2 is layers.0.fc1.weight where it is
// tied, and layers.2.experts.1.fc1.weight for expert 1 of a model that has experts.
std::string parameter_name(const Settings::Model& model, std::int64_t layer, std::int64_t expert,
                           std::string_view name);

// The layers of a stage, and the experts of a rank of ep.
Rows layers_at(const Settings::Model& model, const Mesh& mesh, int rank);
Rows experts_at(const Settings::Model& model, const Mesh& mesh, int rank);

}  // namespace resumecheck
