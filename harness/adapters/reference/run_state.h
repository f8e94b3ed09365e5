// What a run keeps beside parameters, moments and FP8 state, and what of it decides the next step:
// groups and schedule, the loss scale, each sample's place in the data and its dropout generator.
// All of it goes through a checkpoint, or the resumed run is another one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/adapters/reference/loss_scaler.h"
#include "harness/adapters/reference/parameter_groups.h"
#include "harness/adapters/reference/sample_streams.h"
#include "harness/scenario/mesh.h"
#include "harness/scenario/settings.h"
#include "harness/state/state_file.h"

namespace resumecheck {

// step: 1-based. Such a parameter has no gradient: no update, no decay, its step does not count.
bool is_frozen(const Settings& settings, const std::string& parameter, std::int64_t step);

struct RunState {
  // seed: of the generators, as the initial weights'.
  RunState(const Settings& settings, std::uint64_t seed, const Mesh& mesh, int rank);

  ParameterGroups groups;
  std::optional<LossScaler> scaler;
  std::optional<DataPositions> positions;
  std::optional<DropoutGenerators> dropout;
  std::optional<float> grad_norm;  // where gradients are clipped: of the step just taken

  void advance_samples();  // once a step, after its backward
  void tell(RankState& state) const;
  void take(const LogicalState& checkpoint, const std::string& where);
  void take_from(const RunState& source);  // of the same settings and rank
  bool holds(const TensorKey& key) const;
};

}  // namespace resumecheck
