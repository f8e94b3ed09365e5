// What a step of the model begins with on every rank, its whole parameters and its data, and the
// whole step as the slow twin computes it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/adapters/reference/fp8_state.h"
#include "harness/adapters/reference/parameter_shard.h"
#include "harness/ranks/communicator.h"
#include "harness/scenario/placement.h"
#include "harness/scenario/settings.h"
#include "kernels/philox.h"

namespace resumecheck {

struct ModelStep;
struct StepInputs;

// Gathered from the shards of all ranks, as fp32.
class WholeParameters {
 public:
  WholeParameters(const Settings& settings, const std::vector<ParameterShard>& shards,
                  const Mesh& mesh, Communicator& ranks);
  WholeParameters(const WholeParameters&) = delete;
  WholeParameters& operator=(const WholeParameters&) = delete;

  // "fc1.weight" of an expert of a layer, or of the layer where there are none.
  const std::vector<float>& of(std::int64_t layer, std::int64_t expert,
                               std::string_view name) const {
    return by_name_.at(parameter_name(model_, layer, expert, name));
  }

 private:
  const Settings::Model& model_;
  std::map<std::string, std::vector<float>> by_name_;
};

// [samples][width] of the data or the targets.
std::vector<float> samples_at(const Settings& settings, kernels::Stream stream,
                              const StepInputs& inputs, Rows samples);

ModelStep whole_model_step(const Settings& settings, const StepInputs& inputs,
                           const WholeParameters& parameters, const std::vector<Fp8State>& fp8);

}  // namespace resumecheck
