// Deliberate mistakes in the reference's save and load. A scenario that none of them can turn red
// proves nothing, and one whose diagnosis does not name the mistake sends an engineer the wrong
// way; so each defect says what it does and what the diagnosis must call it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/scenario/mesh.h"
#include "harness/scenario/settings.h"
#include "harness/state/assembly.h"

namespace resumecheck {

enum class Defect {
  cast_moments_to_param_dtype,
  scale_through_bf16,
  swap_two_shards,
  step_restarts,
  stale_shard,
  zero_moments,
  drop_codebook,
  codes_off_by_one_block,
  nibbles_swapped,
  scale_of_neighbour,
  moments_requantised_on_load,
  small_tensor_width_flips,
  alias_source,
  master_rederived_from_bf16,
  extra_state_empty_before_first_forward,
  extra_state_dropped,
  amax_history_reset,
  amax_history_shifted_by_one,
  scale_inv_stale,
  forward_and_backward_swapped,
  rank0_extra_state_everywhere,
  amax_not_reduced,
  frozen_moments_dropped,
  decay_wrong_for_one_step,
  schedule_off_by_one,
  skipped_step_counts,
  clip_norm_of_local_shards,
  groups_swapped,
  lr_of_group_0_everywhere,
  loss_scale_reset,
  growth_tracker_reset,
  samples_repeated,
  samples_skipped,
  generator_of_sample_0_everywhere,
  generators_of_rank_0_everywhere,
  generators_restarted,
  rank_order_ignored,
  uneven_shard_offset_wrong,
  padding_taken_for_rows,
  experts_permuted,
  stage_layers_off_by_one,
  columns_taken_for_rows,
  fused_rows_interleaved,
};

struct DefectDescription {
  Defect defect;
  std::string name;                    // as [[fault]] and --defect write it
  std::string summary;                 // one line
  std::string fit;                     // the diagnosis that names it
  bool of_fp8 = false;                 // it touches nothing but FP8 state
  bool while_saving = false;           // else it is made by the load, and by what follows
  std::string feature = {};            // it touches nothing but what a run with this setting keeps
  std::vector<std::string> onto = {};  // of meshes: some that show it, best first
};
const std::vector<DefectDescription>& defect_descriptions();
const DefectDescription* find_defect(std::string_view name);

// False where a run of these settings keeps nothing that the mistake could touch.
bool concerns(const DefectDescription& defect, const Settings& settings);

class Defects {
 public:
  explicit Defects(const std::vector<std::string>& names);  // Error(usage) for an unknown one
  bool has(Defect defect) const {
    return (bits_ & (std::uint64_t{1} << static_cast<unsigned>(defect))) != 0;
  }

 private:
  std::uint64_t bits_ = 0;
};

// What the mistakes of the load that concern whole tensors do to a checkpoint before anybody takes
// his part of it; those of one parameter's storage, step or memory are the run's own. `onto` is the
// loading mesh.
void damage(AssembledState& checkpoint, const Defects& defects, const Settings& settings,
            const Mesh& onto);

}  // namespace resumecheck
