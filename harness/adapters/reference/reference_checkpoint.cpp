// What a run of the reference saves and how another takes it, on any mesh; the deliberate mistakes
// of both are made here too. A checkpoint is the state files of the ranks, with what the optimizer
// carries beside its tensors.
#include <algorithm>
#include <utility>

#include "harness/adapters/reference/checkpoint_folder.h"
#include "harness/adapters/reference/checkpoint_values.h"
#include "harness/adapters/reference/reference_parts.h"
#include "harness/adapters/reference/run_state_damage.h"
#include "harness/state/error.h"
#include "harness/state/quantised_moment.h"

namespace resumecheck {
namespace {

// The whole state of a rank's generator, of which the state tells the digest; in a checkpoint only.
std::string saved_generator_name(int rank) { return "generator/rank" + std::to_string(rank); }

// What the optimizer carries beside its tensors, in a checkpoint only.
std::map<std::string, double*> hyperparameters(kernels::AdamWSettings& optimizer) {
  return {{"optimizer/beta1", &optimizer.beta1},
          {"optimizer/beta2", &optimizer.beta2},
          {"optimizer/eps", &optimizer.eps}};
}

void take_hyperparameters(const LogicalState& checkpoint, kernels::AdamWSettings& optimizer,
                          const std::string& where) {
  for (const auto& [name, value] : hyperparameters(optimizer)) {
    *value = saved<double>(checkpoint, name, where);
  }
}

}  // namespace

// The second shard (the only one, where there is one) is one step behind, but only in what no other
// shard holds as well: codebooks, steps, FP8 state and the scales of cut blocks stay, as replicas
// that disagree are a mistake of another kind.
void ReferenceRun::Parts::save_stale_shard(RankState& now) const {
  const int stale = std::min(1, mesh.size_of("dp") - 1);
  const auto coordinate = now.coordinates.find("dp");
  if ((coordinate == now.coordinates.end() ? 0 : coordinate->second) != stale) return;
  for (std::size_t i = 0; i < now.pieces.size(); ++i) {
    Piece& piece = now.pieces[i];
    const bool everywhere =
        piece.global_shape.empty();  // steps, and parameters without a dimension
    if (everywhere || piece.key.part.find(".codebook") != std::string::npos) continue;
    if (selects("fp8", piece.key.part) || kept.holds(piece.key)) continue;
    const Bytes& before = earlier->pieces[i].bytes;
    if (piece.key.part.find(".scale") == std::string::npos) {
      piece.bytes = before;
      continue;
    }
    const auto shard = std::find_if(shards.begin(), shards.end(), [&](const ParameterShard& one) {
      return one.name() == piece.key.name;
    });
    const std::size_t size = size_of(piece.dtype);
    for (std::size_t k = 0; k * size < before.size(); ++k) {
      const auto& cut = shard->cut_blocks();
      const std::int64_t block = piece.box.offsets()[0] + static_cast<std::int64_t>(k);
      if (std::find(cut.begin(), cut.end(), block) != cut.end()) continue;
      std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(k * size), size,
                  piece.bytes.begin() + static_cast<std::ptrdiff_t>(k * size));
    }
  }
}

void ReferenceRun::Parts::save_stale_scale_inv(RankState& now) const {
  for (std::size_t i = 0; i < now.pieces.size(); ++i) {
    if (selects("fp8.scale_inv", now.pieces[i].key.part)) {
      now.pieces[i].bytes = earlier->pieces[i].bytes;
    }
  }
}

RankState ReferenceRun::Parts::state_to_save() const {
  RankState now = state();
  if (!earlier) return now;
  if (defects.has(Defect::stale_shard)) save_stale_shard(now);
  if (defects.has(Defect::scale_inv_stale)) save_stale_scale_inv(now);
  return now;
}

void ReferenceRun::save(const std::filesystem::path& folder) const {
  RankState state = parts_->state_to_save();
  kernels::AdamWSettings optimizer = parts_->optimizer;
  for (const auto& [name, value] : hyperparameters(optimizer)) state.values[name] = *value;
  parts_->kept.groups.keep(state.values);
  if (parts_->generator) {
    state.values[saved_generator_name(state.rank)] = parts_->generator->text();
  }
  write_rank_state(folder, state);
}

void ReferenceRun::Parts::take_generator(const LogicalState& checkpoint, const std::string& where) {
  if (!generator) return;
  const auto found = checkpoint.values.find(saved_generator_name(ranks.rank()));
  const std::string* text =
      found == checkpoint.values.end() ? nullptr : std::get_if<std::string>(&found->second);
  if (text == nullptr) {
    throw Error(Error::Kind::subject, where,
                "holds no generator of rank " + std::to_string(ranks.rank()),
                "stochastic rounding by generators goes on with as many ranks as saved");
  }
  generator->take(*text, where);
}

void ReferenceRun::Parts::mistake_after_load() {
  for (Fp8State& layer : fp8) {
    if (defects.has(Defect::extra_state_dropped)) layer.forget();
    if (defects.has(Defect::extra_state_empty_before_first_forward)) layer.forget_until_next_step();
  }
  if (defects.has(Defect::amax_not_reduced)) reduces_amax = false;
  if (defects.has(Defect::decay_wrong_for_one_step)) kept.groups.decay_as_made_for_one_step();
  counts_skipped_steps = defects.has(Defect::skipped_step_counts);
  norm_of_local_shards = defects.has(Defect::clip_norm_of_local_shards);
  for (ParameterShard& shard : shards) {
    if (defects.has(Defect::cast_moments_to_param_dtype)) shard.cast_moments_to_param_dtype();
    if (defects.has(Defect::step_restarts)) shard.restart_step();
  }
  if (!defects.has(Defect::small_tensor_width_flips)) return;
  ParameterShard* smallest = nullptr;
  for (ParameterShard& shard : shards) {
    if (!shard.quantised()) continue;
    if (smallest == nullptr || shard.elements() < smallest->elements()) smallest = &shard;
  }
  if (smallest != nullptr) smallest->keep_moments_unquantised();
}

// A tensor of a parameter, of an FP8 module or of the run, of another rank too.
bool ReferenceRun::Parts::holds(const TensorKey& key) const {
  const std::string& name = key.name;
  if (kept.holds(key)) return true;
  if (!selects("fp8", key.part)) {
    return std::any_of(shards.begin(), shards.end(),
                       [&](const ParameterShard& one) { return one.name() == name; });
  }
  return std::any_of(fp8.begin(), fp8.end(), [&](const Fp8State& layer) {
    return layer.name().substr(0, layer.name().find('@')) == name.substr(0, name.find('@'));
  });
}

void ReferenceRun::load(const std::filesystem::path& folder) {
  Parts& parts = *parts_;
  AssembledState checkpoint = read_checkpoint(folder);
  if (const auto misfits = find_misfits(checkpoint.state); !misfits.empty()) {
    throw Error(Error::Kind::subject, folder.string(), misfits.front().what, misfits.front().cure);
  }
  if (parts.generator && checkpoint.mesh != parts.mesh.text()) {
    throw Error(
        Error::Kind::subject, folder.string(),
        "was saved by generators of " + checkpoint.mesh + ", this run has " + parts.mesh.text(),
        "stochastic rounding by generators goes on on the mesh that saved");
  }
  damage(checkpoint, parts.defects, parts.settings, parts.mesh);
  damage_run_state(checkpoint.state, parts.defects, parts.settings, parts.mesh);
  for (ParameterShard& shard : parts.shards) shard.take(checkpoint.state, folder.string());
  for (Fp8State& layer : parts.fp8) layer.take(checkpoint.state, folder.string());
  parts.take_generator(checkpoint.state, folder.string());
  parts.kept.take(checkpoint.state, folder.string());
  for (const auto& entry : checkpoint.state.tensors) {
    const TensorKey& key = entry.first;
    if (parts.holds(key)) continue;
    throw Error(Error::Kind::subject, folder.string(),
                "holds " + to_text(key) + ", which this run does not have",
                "load a checkpoint of the same model");
  }
  take_hyperparameters(checkpoint.state, parts.optimizer, folder.string());
  parts.step = checkpoint.state.step;
  parts.mistake_after_load();
}

void ReferenceRun::load_from(const ReferenceRun& source) {
  Parts& parts = *parts_;
  const Parts& from = *source.parts_;
  if (!(from.mesh == parts.mesh) || from.settings.parameters != parts.settings.parameters) {
    throw Error(Error::Kind::usage, "a state dict of " + from.mesh.text(),
                "cannot be loaded on " + parts.mesh.text(),
                "a state dict in memory is loaded by the ranks and the model that made it");
  }
  for (std::size_t i = 0; i < parts.shards.size(); ++i) {
    parts.shards[i].take_from(from.shards[i], parts.defects.has(Defect::alias_source));
  }
  parts.fp8 = from.fp8;
  parts.optimizer = from.optimizer;
  parts.kept.take_from(from.kept);
  parts.generator = from.generator;
  parts.step = from.step;
  parts.mistake_after_load();
}

}  // namespace resumecheck
