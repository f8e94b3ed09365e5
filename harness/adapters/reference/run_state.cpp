#include "harness/adapters/reference/run_state.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "harness/adapters/reference/model_step.h"
#include "harness/scenario/glob.h"
#include "harness/state/error.h"

namespace resumecheck {
namespace {

const TensorKey& norm_key() {
  static const TensorKey key = {"gradients", "grad_norm"};
  return key;
}

float norm_in(const LogicalState& checkpoint, const std::string& where) {
  const auto found = checkpoint.tensors.find(norm_key());
  if (found == checkpoint.tensors.end() || found->second.bytes.size() != sizeof(float)) {
    throw Error(Error::Kind::subject, where, "holds no " + to_text(norm_key()),
                "load a checkpoint of a run that clips");
  }
  float norm;
  std::memcpy(&norm, found->second.bytes.data(), sizeof norm);
  return norm;
}

}  // namespace

bool is_frozen(const Settings& settings, const std::string& parameter, std::int64_t step) {
  const Settings::Model& model = settings.model;
  const bool now =
      step >= model.frozen_from && (model.frozen_until == 0 || step <= model.frozen_until);
  return now && std::any_of(model.frozen.begin(), model.frozen.end(),
                            [&](const auto& pattern) { return glob_matches(pattern, parameter); });
}

RunState::RunState(const Settings& settings, std::uint64_t seed, const Mesh& mesh, int rank)
    : groups(settings) {
  if (settings.loss_scale.initial > 0) scaler.emplace(settings.loss_scale);
  if (settings.data == "stream") positions.emplace(samples_of(mesh, rank));
  if (settings.model.dropout > 0) dropout.emplace(seed, samples_of(mesh, rank));
  if (settings.optimizer.clip_norm > 0) grad_norm = 0;
}

void RunState::advance_samples() {
  if (positions) positions->advance();
  if (dropout) dropout->advance();
}

void RunState::tell(RankState& state) const {
  groups.tell(state.values);
  if (scaler) scaler->tell(state.values);
  if (positions) positions->tensor().add_to(state.pieces);
  if (dropout) dropout->tensor().add_to(state.pieces);
  if (!grad_norm) return;
  const auto bytes = std::as_bytes(std::span(&*grad_norm, 1));
  state.pieces.push_back({norm_key(), Dtype::f32, {}, Box(), 0, {bytes.begin(), bytes.end()}});
}

void RunState::take(const LogicalState& checkpoint, const std::string& where) {
  groups.take(checkpoint, where);
  if (scaler) scaler->take(checkpoint, where);
  if (positions) positions->tensor().take(checkpoint, where);
  if (dropout) dropout->tensor().take(checkpoint, where);
  if (grad_norm) grad_norm = norm_in(checkpoint, where);
}

void RunState::take_from(const RunState& source) {
  groups.take_from(source.groups);
  scaler = source.scaler;
  positions = source.positions;
  dropout = source.dropout;
  grad_norm = source.grad_norm;
}

bool RunState::holds(const TensorKey& key) const {
  return (positions && key == positions->tensor().key()) ||
         (dropout && key == dropout->tensor().key()) || (grad_norm && key == norm_key());
}

}  // namespace resumecheck
