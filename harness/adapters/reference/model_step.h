// One step of the model on one rank of a mesh: whole parameters are gathered, the rank's own
// samples go forward and backward in its micro-batches, and what each sample gives to the gradients
// is gathered and added in the order of the samples. Adding a rank's samples first, as an
// all-reduce does, would give each mesh and each number of micro-batches its own bits.
#pragma once

#include <cstdint>
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

// run_step: 1-based. fp8: one a layer, or none. Every rank of the mesh calls it. An arithmetic
// without model kernels computes whole steps, so it needs all samples: one rank.
ModelStep model_step(const Settings& settings, std::int64_t run_step,
                     const std::vector<ParameterShard>& shards, const std::vector<Fp8State>& fp8,
                     const Mesh& mesh, Communicator& ranks, const Arithmetic& arithmetic);

// The samples [first, last) of a rank: replicas see other data, as under DDP and HSDP.
Rows samples_of(const Mesh& mesh, int rank);

}  // namespace resumecheck
