// What a step of the model begins with on every rank, its whole parameters and its data, and the
// whole step as the slow twin computes it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/adapters/reference/fp8_state.h"
#include "harness/adapters/reference/parameter_shard.h"
#include "harness/ranks/communicator.h"
#include "harness/scenario/mesh.h"
#include "harness/scenario/settings.h"
#include "kernels/layernorm_mlp.h"
#include "kernels/philox.h"

namespace resumecheck {

struct ModelStep;

// Gathered from the shards of all ranks, as fp32.
class WholeParameters {
 public:
  WholeParameters(const Settings& settings, const std::vector<ParameterShard>& shards,
                  const Mesh& mesh, Communicator& ranks);
  WholeParameters(const WholeParameters&) = delete;
  WholeParameters& operator=(const WholeParameters&) = delete;

  std::vector<kernels::BlockParameters> layers;
  std::map<std::string, std::vector<float>> by_name;  // what `layers` points into
};

// [samples][width] of the data or the targets; a sample's values depend on its place among the 24.
std::vector<float> samples_of_step(const Settings& settings, kernels::Stream stream,
                                   std::int64_t run_step, Rows samples);

ModelStep whole_model_step(const Settings& settings, std::int64_t run_step,
                           const WholeParameters& parameters, const std::vector<Fp8State>& fp8);

}  // namespace resumecheck
