// What each adapter can do, known without starting it: a scenario that asks for more must fail when
// it is read, on the author's machine, and not after a launch on a cluster. An adapter that grows a
// capability says so here.
#include "harness/scenario/names.h"
#include "harness/scenario/nearest_name.h"
#include "harness/scenario/one_line.h"
#include "harness/scenario/scenario.h"
#include "harness/state/error.h"

namespace resumecheck {
namespace {

const Names low_bit_optimizers = {"adamw8bit", "adamw4bit", "adamwfp8", "adamw"};

const Names quantised_parts = {"param",
                               "moment1.codes",
                               "moment1.scale",
                               "moment1.codebook",
                               "moment1.values",
                               "moment2.codes",
                               "moment2.scale",
                               "moment2.codebook",
                               "moment2.values",
                               "step",
                               "lr",
                               "rng"};

// Beside parameters and moments.
const Names run_state_parts = {"param_group", "scheduler", "grad_norm", "loss_scaler",
                               "data_position"};

const Names delayed_scaling_parts = {"fp8.scale.forward",
                                     "fp8.scale.backward",
                                     "fp8.amax_history.forward",
                                     "fp8.amax_history.backward",
                                     "fp8.scale_inv.forward",
                                     "fp8.scale_inv.backward",
                                     "fp8.recipe"};

void add_parts(const Names& parts, AdapterDeclaration& adapter) {
  adapter.parts.insert(adapter.parts.end(), parts.begin(), parts.end());
}

AdapterDeclaration reference() {
  AdapterDeclaration adapter;
  adapter.name = "reference";
  adapter.native = true;
  adapter.save_formats = {"native", "state_dict"};
  adapter.parts = quantised_parts;
  adapter.parts.emplace_back("master");
  add_parts(delayed_scaling_parts, adapter);
  add_parts(run_state_parts, adapter);
  adapter.mesh_dims = {"rep", "dp", "tp", "pp", "cp", "ep"};
  adapter.optimizers = low_bit_optimizers;
  adapter.models = {"layernorm_mlp"};
  adapter.fp8_recipes = {"delayed"};
  adapter.gradients = {"order_free", "model"};
  adapter.features = {"resumes", "tied",     "experts",   "dropout",    "frozen",
                      "groups",  "schedule", "clip_norm", "loss_scale", "data"};
  adapter.defects = {"cast_moments_to_param_dtype",
                     "scale_through_bf16",
                     "swap_two_shards",
                     "step_restarts",
                     "stale_shard",
                     "zero_moments",
                     "drop_codebook",
                     "codes_off_by_one_block",
                     "nibbles_swapped",
                     "scale_of_neighbour",
                     "moments_requantised_on_load",
                     "small_tensor_width_flips",
                     "alias_source",
                     "master_rederived_from_bf16",
                     "extra_state_empty_before_first_forward",
                     "extra_state_dropped",
                     "amax_history_reset",
                     "amax_history_shifted_by_one",
                     "scale_inv_stale",
                     "forward_and_backward_swapped",
                     "rank0_extra_state_everywhere",
                     "amax_not_reduced",
                     "frozen_moments_dropped",
                     "decay_wrong_for_one_step",
                     "schedule_off_by_one",
                     "skipped_step_counts",
                     "clip_norm_of_local_shards",
                     "groups_swapped",
                     "lr_of_group_0_everywhere",
                     "loss_scale_reset",
                     "growth_tracker_reset",
                     "samples_repeated",
                     "samples_skipped",
                     "generator_of_sample_0_everywhere",
                     "generators_of_rank_0_everywhere",
                     "generators_restarted",
                     "rank_order_ignored",
                     "uneven_shard_offset_wrong",
                     "padding_taken_for_rows",
                     "experts_permuted",
                     "stage_layers_off_by_one",
                     "columns_taken_for_rows",
                     "fused_rows_interleaved"};
  return adapter;
}

AdapterDeclaration torchao() {
  AdapterDeclaration adapter;
  adapter.name = "torchao";
  adapter.package = "torchao";
  adapter.options = {{"wrap", {"fsdp2", "none", "fsdp2_matrices", "fsdp2_cpu_offload"}}};
  adapter.compiles = true;
  adapter.save_formats = {"dcp",  "dcp_flattened", "dcp_cpu_offload",
                          "full", "torch_save",    "state_dict"};
  adapter.parts = quantised_parts;
  adapter.mesh_dims = {"rep", "dp"};
  adapter.optimizers = low_bit_optimizers;
  adapter.features = {"resumes"};
  return adapter;
}

AdapterDeclaration transformer_engine() {
  AdapterDeclaration adapter;
  adapter.name = "transformer_engine";
  adapter.package = "transformer-engine";
  adapter.options = {{"module", {"layernorm_mlp", "linear", "layernorm_linear"}},
                     {"wrap", {"fsdp2", "none"}},
                     {"before_load", {"fresh", "init_fp8_metadata", "placeholder", "left_out"}},
                     {"unsafe_pickle", {"allowed", "refused"}}};
  adapter.save_formats = {"dcp", "torch_save", "extra_state"};
  adapter.parts = {"param", "moment1.values", "moment2.values", "step", "lr", "loss"};
  add_parts(delayed_scaling_parts, adapter);
  adapter.mesh_dims = {"rep", "dp"};
  adapter.optimizers = {"adamw"};
  adapter.models = {"layernorm_mlp"};
  adapter.needs_model = true;
  adapter.whole_width = 16;
  adapter.whole_samples = 8;
  adapter.fp8_recipes = {"delayed", "current", "block", "mxfp8"};
  adapter.gradients = {"order_free", "model"};
  adapter.features = {"resumes"};
  return adapter;
}

AdapterDeclaration plain_python() {
  AdapterDeclaration adapter;
  adapter.name = "plain_python";
  adapter.save_formats = {"native"};
  adapter.parts = {"param", "moment1.values", "step", "lr"};
  adapter.mesh_dims = {"rep", "dp"};
  adapter.optimizers = {"sgd"};
  adapter.features = {"resumes"};
  return adapter;
}

}  // namespace

const std::vector<AdapterDeclaration>& adapter_declarations() {
  static const std::vector<AdapterDeclaration> declarations = {
      reference(), torchao(), transformer_engine(), plain_python()};
  return declarations;
}

const AdapterDeclaration& adapter_declaration(std::string_view name) {
  std::vector<std::string> names;
  for (const AdapterDeclaration& adapter : adapter_declarations()) {
    if (adapter.name == name) return adapter;
    names.push_back(adapter.name);
  }
  throw Error(Error::Kind::usage, {}, "unknown adapter '" + one_line(name) + "'",
              did_you_mean(name, names));
}

const Names& optimizer_names() {
  static const Names names = {"adamw8bit", "adamw4bit", "adamwfp8", "adamw", "sgd"};
  return names;
}

const Names& profile_names() {
  static const Names names = {"canonical", "torchao_eager", "torchao_compiled"};
  return names;
}

const std::vector<std::string>& rank_fault_names() {
  static const std::vector<std::string> names = {"kill_rank", "hang_rank", "flood_output",
                                                 "raise_exception", "exit_early"};
  return names;
}

}  // namespace resumecheck
