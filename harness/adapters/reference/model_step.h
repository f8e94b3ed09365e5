// One step of the model on one rank of a mesh. The rank's own samples go forward and backward in
// its micro-batches, through the layers of its stage, its experts, and its part of the hidden
// features; what each sample gives to the gradients is gathered and added in the order of the
// samples. Adding a rank's samples or features first, as an all-reduce does, would give each mesh
// and each number of micro-batches its own bits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/adapters/reference/arithmetic.h"
#include "harness/adapters/reference/fp8_state.h"
#include "harness/adapters/reference/parameter_shard.h"
#include "harness/ranks/communicator.h"
#include "harness/scenario/mesh.h"
#include "harness/scenario/settings.h"

namespace resumecheck {

struct ModelStep {
  std::map<std::string, std::vector<float>> gradients;  // by parameter, whole
  std::vector<Amaxes> amaxes;  // by layer, of this rank's samples and of the weights; without FP8
                               // none
  float loss = 0;              // the sum over all samples
};

struct StepInputs {
  // Where in the data logical sample s (0..23) of this step lies: it is sample index % 24 of data
  // step index / 24 + 1. Asked only for samples that this rank computes.
  std::function<std::int64_t(std::int64_t sample)> data_index;
  // What fc2's input is multiplied by, 0 or 2; unset: no dropout.
  std::function<float(std::int64_t layer, std::int64_t sample, std::int64_t feature)> dropout;
};
StepInputs inputs_by_step(std::int64_t run_step);  // the data goes with the steps (1-based)

// fp8: one a layer, or none. Every rank of the mesh calls it. An arithmetic without model kernels
// computes whole steps, so it needs all samples: one rank.
ModelStep model_step(const Settings& settings, const StepInputs& inputs,
                     const std::vector<ParameterShard>& shards, const std::vector<Fp8State>& fp8,
                     const Mesh& mesh, Communicator& ranks, const Arithmetic& arithmetic);

// The samples [first, last) of a rank: replicas see other data, as under DDP and HSDP, and so do
// the ranks of cp; those that differ in tp, pp and ep alone share theirs.
Rows samples_of(const Mesh& mesh, int rank);

}  // namespace resumecheck
