#include "harness/adapters/reference/run_state_damage.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>

#include "harness/adapters/reference/model_step.h"
#include "harness/scenario/model_schema.h"

namespace resumecheck {
namespace {

// 64-bit numbers of a tensor, where the checkpoint has it.
void change(LogicalState& state, const TensorKey& key,
            const std::function<void(std::vector<std::int64_t>&)>& to) {
  const auto found = state.tensors.find(key);
  if (found == state.tensors.end()) return;
  Bytes& bytes = found->second.bytes;
  std::vector<std::int64_t> values(bytes.size() / sizeof(std::int64_t));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  to(values);
  std::memcpy(bytes.data(), values.data(), bytes.size());
}

void add_to_position(LogicalState& state, std::int64_t samples) {
  change(state, {"data", "data_position"}, [&](std::vector<std::int64_t>& next) {
    for (std::int64_t& index : next) index += samples;
  });
}

// Each row is that of `source` of it.
void move_generators(LogicalState& state, const std::function<std::int64_t(std::int64_t)>& source) {
  change(state, {"dropout", "rng"}, [&](std::vector<std::int64_t>& rows) {
    const std::vector<std::int64_t> saved = rows;
    const std::size_t width = rows.size() / static_cast<std::size_t>(logical_samples);
    for (std::int64_t s = 0; s < logical_samples; ++s) {
      const auto from = saved.begin() + source(s) * static_cast<std::ptrdiff_t>(width);
      std::copy_n(from, width, rows.begin() + s * static_cast<std::ptrdiff_t>(width));
    }
  });
}

void restart_generators(LogicalState& state) {
  change(state, {"dropout", "rng"}, [](std::vector<std::int64_t>& rows) {
    for (std::size_t i = 1; i < rows.size(); i += 2) rows[i] = 0;
  });
}

std::int64_t sample_of_rank_0(const Mesh& onto, std::int64_t sample) {
  const Rows first = samples_of(onto, 0);
  for (int rank = 0; rank < onto.world(); ++rank) {
    const Rows mine = samples_of(onto, rank);
    if (sample < mine.first || sample >= mine.last) continue;
    return first.first + (sample - mine.first) % (first.last - first.first);
  }
  return sample;
}

// "lr/0" -> whether the value belongs to that group, and what follows its number.
void copy_group(LogicalState& state, const LogicalState& saved, const std::string& from,
                const std::string& to, const std::vector<std::pair<std::string, std::string>>& of) {
  for (const auto& [before, behind] : of) {
    const auto found = saved.values.find(before + from + behind);
    const auto there = state.values.find(before + to + behind);
    if (found != saved.values.end() && there != state.values.end()) there->second = found->second;
  }
}

const std::vector<std::pair<std::string, std::string>>& rates() {
  static const std::vector<std::pair<std::string, std::string>> all = {{"lr/", ""},
                                                                       {"optimizer/group", ".lr"}};
  return all;
}

void swap_groups(LogicalState& state) {
  auto fields = rates();
  fields.insert(fields.end(),
                {{"optimizer/group", ".weight_decay"}, {"param_group/", ".weight_decay"}});
  const LogicalState saved = state;
  copy_group(state, saved, "0", "1", fields);
  copy_group(state, saved, "1", "0", fields);
}

void rate_of_group_0_everywhere(LogicalState& state) {
  const LogicalState saved = state;
  for (int group = 1; saved.values.count("lr/" + std::to_string(group)) != 0; ++group) {
    copy_group(state, saved, "0", std::to_string(group), rates());
  }
}

void drop_frozen_moments(LogicalState& state, const Settings& settings) {
  for (auto& [key, tensor] : state.tensors) {
    const bool moment = selects("moment1", key.part) || selects("moment2", key.part);
    if (!moment || key.part.find(".codebook") != std::string::npos) continue;
    if (!is_frozen(settings, key.name, state.step)) continue;
    std::fill(tensor.bytes.begin(), tensor.bytes.end(), std::byte{0});
  }
}

void set_where_kept(LogicalState& state, const char* name, const Value& value) {
  const auto found = state.values.find(name);
  if (found != state.values.end()) found->second = value;
}

}  // namespace

std::vector<DefectDescription> run_state_defects() {
  return {
      {Defect::frozen_moments_dropped, "frozen_moments_dropped",
       "the moments of what is frozen at the save are not saved, and begin anew",
       "moments of frozen parameters dropped", false, false, "frozen"},
      {Defect::decay_wrong_for_one_step, "decay_wrong_for_one_step",
       "the first step after the load takes the weight decay that the optimizer was made with",
       "weight decay of another strength"},
      {Defect::schedule_off_by_one, "schedule_off_by_one",
       "the load leaves the schedule one step behind", "schedule one step behind", false, false,
       "schedule"},
      {Defect::skipped_step_counts, "skipped_step_counts",
       "after the load, a step that is skipped advances the schedule", "schedule one step ahead",
       false, false, "loss_scale"},
      {Defect::clip_norm_of_local_shards, "clip_norm_of_local_shards",
       "after the load, every rank clips by the norm of its own shards", "norm of local shards",
       false, false, "clip_norm"},
      {Defect::groups_swapped, "groups_swapped",
       "the load gives the first two groups each other's lr and weight decay", "groups swapped",
       false, false, "groups"},
      {Defect::lr_of_group_0_everywhere, "lr_of_group_0_everywhere",
       "the load gives every group the lr of the first", "lr of group 0 everywhere", false, false,
       "groups"},
      {Defect::loss_scale_reset, "loss_scale_reset",
       "the load leaves the loss scale as a fresh run has it", "loss scale reset", false, false,
       "loss_scale"},
      {Defect::growth_tracker_reset, "growth_tracker_reset",
       "the load counts the steps without an overflow from zero", "growth tracker reset", false,
       false, "loss_scale"},
      {Defect::samples_repeated, "samples_repeated",
       "the load leaves the data one step of samples behind", "data position behind", false, false,
       "data"},
      {Defect::samples_skipped, "samples_skipped",
       "the load puts the data one step of samples ahead", "data position ahead", false, false,
       "data"},
      {Defect::generator_of_sample_0_everywhere, "generator_of_sample_0_everywhere",
       "the load gives every sample the dropout generator of the first",
       "generator of sample 0 everywhere", false, false, "dropout"},
      {Defect::generators_of_rank_0_everywhere, "generators_of_rank_0_everywhere",
       "every rank loads the dropout generators that rank 0's samples need",
       "generators of rank 0 everywhere", false, false, "dropout"},
      {Defect::generators_restarted, "generators_restarted",
       "the load gives the dropout generators their keys, and lets them count from zero",
       "generators restarted", false, false, "dropout"},
  };
}

void damage_run_state(LogicalState& checkpoint, const Defects& defects, const Settings& settings,
                      const Mesh& onto) {
  if (defects.has(Defect::frozen_moments_dropped)) drop_frozen_moments(checkpoint, settings);
  if (defects.has(Defect::schedule_off_by_one)) {
    const auto found = checkpoint.values.find("scheduler/steps");
    if (found != checkpoint.values.end()) std::get<std::int64_t>(found->second) -= 1;
  }
  if (defects.has(Defect::groups_swapped)) swap_groups(checkpoint);
  if (defects.has(Defect::lr_of_group_0_everywhere)) rate_of_group_0_everywhere(checkpoint);
  if (defects.has(Defect::loss_scale_reset)) {
    set_where_kept(checkpoint, "loss_scaler/scale", settings.loss_scale.initial);
  }
  if (defects.has(Defect::growth_tracker_reset)) {
    set_where_kept(checkpoint, "loss_scaler/growth_tracker", std::int64_t{0});
  }
  if (defects.has(Defect::samples_repeated)) add_to_position(checkpoint, -logical_samples);
  if (defects.has(Defect::samples_skipped)) add_to_position(checkpoint, logical_samples);
  if (defects.has(Defect::generator_of_sample_0_everywhere)) {
    move_generators(checkpoint, [](std::int64_t) { return 0; });
  }
  if (defects.has(Defect::generators_of_rank_0_everywhere)) {
    move_generators(checkpoint, [&](std::int64_t s) { return sample_of_rank_0(onto, s); });
  }
  if (defects.has(Defect::generators_restarted)) restart_generators(checkpoint);
}

}  // namespace resumecheck
