// What a run of the reference consists of; its step is in reference_run.cpp, its save and load in
// reference_checkpoint.cpp.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/adapters/reference/defect.h"
#include "harness/adapters/reference/fp8_state.h"
#include "harness/adapters/reference/model_step.h"
#include "harness/adapters/reference/parameter_shard.h"
#include "harness/adapters/reference/reference.h"
#include "harness/adapters/reference/rounding_generator.h"
#include "harness/adapters/reference/run_state.h"

namespace resumecheck {

using Gradients = std::map<std::string, std::vector<float>>;  // by parameter

struct ReferenceRun::Parts {
  Settings settings;
  Mesh mesh;
  Communicator& ranks;
  Defects defects;
  std::shared_ptr<const Arithmetic> arithmetic;
  kernels::AdamWSettings optimizer;  // lr and weight decay are the groups'
  RunState kept;
  std::vector<ParameterShard> shards;
  std::vector<Fp8State> fp8;  // by layer; none without [fp8]
  std::optional<RoundingGenerator> generator;
  std::int64_t step = 0;             // of the run: what the gradients follow
  std::optional<RankState> earlier;  // one step before, for what is saved stale
  bool reduces_amax = true;
  bool counts_skipped_steps = false;
  bool norm_of_local_shards = false;

  kernels::AdamWSettings optimizer_of_step() const;
  std::map<std::string, std::vector<std::uint16_t>> rounding();
  StepInputs inputs_of_step() const;
  std::vector<Amaxes> injected_amaxes_of_step() const;
  Gradients whole_gradients(std::vector<Amaxes>& amaxes);
  Gradients of_this_rank(const Gradients& whole) const;
  std::optional<Gradients> gradients(std::vector<Amaxes>& amaxes);
  bool overflows(const Gradients& mine);
  void update_parameters(const Gradients& gradients);
  void update_scales(const std::vector<Amaxes>& amaxes);
  void take_generator(const LogicalState& checkpoint, const std::string& where);
  void mistake_after_load();
  RankState state() const;
  RankState state_to_save() const;
  void save_stale_shard(RankState& now) const;
  void save_stale_scale_inv(RankState& now) const;
  bool holds(const TensorKey& key) const;
  void finish_cut_blocks(std::vector<std::vector<kernels::CutBlock>>& cuts);
};

}  // namespace resumecheck
