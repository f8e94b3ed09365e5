// What the ranks do together in a step: the blocks that a shard boundary cuts take the maximum over
// all of them in one exchange, and the amaxes of all layers in another. Every rank lists the cut
// blocks of all parameters from the mesh alone, so that all agree on the exchange even where a rank
// holds nothing.
#include <algorithm>
#include <map>
#include <utility>

#include "harness/adapters/reference/gradient_clipping.h"
#include "harness/adapters/reference/model_step.h"
#include "harness/adapters/reference/reference_parts.h"
#include "harness/scenario/capabilities.h"
#include "harness/state/error.h"

namespace resumecheck {
namespace {

std::vector<ParameterShard> shards_of(const Settings& settings, std::uint64_t init_seed,
                                      const Mesh& mesh, int rank) {
  auto parameters = settings.parameters;
  std::sort(parameters.begin(), parameters.end());
  std::vector<ParameterShard> shards;
  shards.reserve(parameters.size());
  std::uint32_t ordinal = 0;
  for (const auto& [name, shape] : parameters) {
    shards.emplace_back(name, shape, ordinal++, settings, init_seed, mesh, rank);
  }
  return shards;
}

std::vector<Fp8State> fp8_of(const Settings& settings, int rank) {
  std::vector<Fp8State> layers;
  if (settings.fp8.recipe.empty()) return layers;
  for (std::int64_t i = 0; i < settings.model.layers; ++i) {
    layers.emplace_back(static_cast<std::uint32_t>(i), settings, rank);
  }
  return layers;
}

kernels::AdamWSettings adamw_settings(const Settings& settings) {
  const Settings::Optimizer& given = settings.optimizer;
  return {given.lr,  given.beta1,        given.beta2,
          given.eps, given.weight_decay, profile_of(given.profile)};
}

bool is_canonical(const std::string& profile) {
  return profile_of(profile) == kernels::Profile::canonical;
}

// As ParameterShard gives each rank its own elements.
Gradients whole_injected_gradients(const Settings& settings, std::int64_t step) {
  Gradients whole;
  for (const ParameterShard& all : shards_of(settings, 0, Mesh::parse("dp1"), 0)) {
    whole[all.name()] = all.injected_gradient(settings.seed, step);
  }
  return whole;
}

std::string generator_name(int rank) { return "rng/rank" + std::to_string(rank); }

Error unsupported(const std::string& key, const std::string& what, const std::string& cure) {
  return Error(Error::Kind::usage, key, what, cure);
}

void check_profiles(const Settings& settings) {
  const Settings::Optimizer& optimizer = settings.optimizer;
  const std::string& then = optimizer.profile_after_save;
  if (!then.empty() && is_canonical(then) != is_canonical(optimizer.profile)) {
    throw unsupported(
        "optimizer.profile_after_save",
        "unquantised moments of '" + optimizer.profile + "' have another dtype in '" + then + "'",
        "change between torchao_eager and torchao_compiled");
  }
  if (optimizer.stochastic_rounding && has_compiled_steps(settings)) {
    throw unsupported("optimizer.stochastic_rounding",
                      "the compiler draws in an order of its own, which is not modelled",
                      "profile canonical or torchao_eager");
  }
}

void check_supported(const Settings& settings) {
  storage_of(settings);
  check_profiles(settings);
  if (settings.gradients != "order_free" && settings.gradients != "model") {
    throw unsupported("run.gradients",
                      "the reference has no gradients '" + settings.gradients + "'",
                      "order_free or model");
  }
  if (settings.gradients == "model" && settings.model.kind.empty()) {
    throw unsupported("run.gradients", "names and shapes compute no gradients",
                      "model.kind layernorm_mlp, or gradients order_free");
  }
  if (settings.param_dtype == "bf16") return;
  if (settings.optimizer.stochastic_rounding) {
    throw unsupported("optimizer.stochastic_rounding",
                      "parameters of " + settings.param_dtype + " are not rounded", "bf16");
  }
  if (!settings.master_dtype.empty()) {
    throw unsupported("master_dtype",
                      "parameters of " + settings.param_dtype + " need no other copy", "bf16");
  }
}

}  // namespace

ReferenceRun::ReferenceRun(const Settings& settings, std::uint64_t init_seed, const Mesh& mesh,
                           Communicator& ranks, const std::vector<std::string>& defects,
                           std::shared_ptr<const Arithmetic> arithmetic) {
  check_supported(settings);
  parts_ = std::make_unique<Parts>(
      Parts{settings, mesh, ranks, Defects(defects), std::move(arithmetic),
            adamw_settings(settings), RunState(settings, init_seed, mesh, ranks.rank()),
            shards_of(settings, init_seed, mesh, ranks.rank()), fp8_of(settings, ranks.rank()),
            std::nullopt, 0, std::nullopt, settings.fp8.reduce_amax});
  if (draws_from_a_generator(settings)) parts_->generator.emplace(init_seed);
  if (mesh.world() != ranks.size()) {
    throw Error(Error::Kind::harness, "mesh " + mesh.text(),
                "needs " + std::to_string(mesh.world()) + " ranks, there are " +
                    std::to_string(ranks.size()),
                "start as many ranks as the mesh has");
  }
}

ReferenceRun::~ReferenceRun() = default;
ReferenceRun::ReferenceRun(ReferenceRun&&) noexcept = default;

std::int64_t ReferenceRun::steps_done() const { return parts_->step; }

RankState ReferenceRun::Parts::state() const {
  RankState state;
  state.rank = ranks.rank();
  state.world = ranks.size();
  state.mesh = mesh.text();
  state.coordinates = mesh.coordinates(ranks.rank());
  state.step = step;
  for (const ParameterShard& shard : shards) {
    for (Piece& piece : shard.pieces()) state.pieces.push_back(std::move(piece));
  }
  for (const Fp8State& layer : fp8) {
    for (Piece& piece : layer.pieces()) state.pieces.push_back(std::move(piece));
    if (layer.told()) state.values[layer.recipe_name()] = layer.recipe_text();
  }
  kept.tell(state);
  if (generator) state.values[generator_name(ranks.rank())] = generator->digest();
  return state;
}

RankState ReferenceRun::state() const { return parts_->state(); }

void ReferenceRun::Parts::finish_cut_blocks(std::vector<std::vector<kernels::CutBlock>>& cuts) {
  std::vector<std::uint32_t> absmax;  // two for each cut block of each parameter, in order
  const auto each_cut = [&](auto visit) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      for (const std::int64_t block : shards[i].cut_blocks()) {
        for (kernels::CutBlock& cut : cuts[i]) {
          if (cut.block == block) visit(cut, at);
        }
        at += 2;
      }
    }
    return at;
  };
  absmax.resize(each_cut([](kernels::CutBlock&, std::size_t) {}));
  each_cut([&](kernels::CutBlock& cut, std::size_t at) {
    absmax[at] = std::max(absmax[at], cut.absmax1);
    absmax[at + 1] = std::max(absmax[at + 1], cut.absmax2);
  });
  ranks.all_reduce_max(absmax);
  each_cut([&](kernels::CutBlock& cut, std::size_t at) {
    cut.absmax1 = absmax[at];
    cut.absmax2 = absmax[at + 1];
  });
  for (std::size_t i = 0; i < shards.size(); ++i) shards[i].finish(cuts[i], *arithmetic);
}

// From the step after the save on, in both runs, the profile may be another.
kernels::AdamWSettings ReferenceRun::Parts::optimizer_of_step() const {
  kernels::AdamWSettings now = optimizer;
  const std::string& then = settings.optimizer.profile_after_save;
  if (!then.empty() && step > settings.save_after) now.profile = profile_of(then);
  return now;
}

// By parameter; a generator is drawn from in the order in which they are declared.
std::map<std::string, std::vector<std::uint16_t>> ReferenceRun::Parts::rounding() {
  std::map<std::string, std::vector<std::uint16_t>> bits;
  if (!settings.optimizer.stochastic_rounding) return bits;
  for (const auto& parameter : settings.parameters) {
    const std::string& name = parameter.first;
    if (is_frozen(settings, name, step)) continue;
    const auto shard = std::find_if(shards.begin(), shards.end(),
                                    [&](const ParameterShard& one) { return one.name() == name; });
    bits[name] = generator ? generator->draw(shard->local_elements())
                           : shard->rounding_by_element(settings.seed, step);
  }
  return bits;
}

// Where each of this rank's samples is in the data, and what it drops.
StepInputs ReferenceRun::Parts::inputs_of_step() const {
  StepInputs inputs = inputs_by_step(step);
  if (kept.positions) {
    inputs.data_index = [this](std::int64_t sample) { return kept.positions->of(sample); };
  }
  if (kept.dropout) {
    inputs.dropout = [this](std::int64_t layer, std::int64_t sample, std::int64_t feature) {
      return kept.dropout->factor(layer, sample, feature);
    };
  }
  return inputs;
}

std::vector<Amaxes> ReferenceRun::Parts::injected_amaxes_of_step() const {
  std::vector<Amaxes> amaxes;
  for (std::size_t i = 0; i < fp8.size(); ++i) {
    amaxes.push_back(injected_amaxes(settings.seed, static_cast<std::uint32_t>(i), step,
                                     ranks.rank(), ranks.size()));
  }
  return amaxes;
}

// Of parameters that are not frozen; amaxes: of each layer, where there is FP8.
Gradients ReferenceRun::Parts::whole_gradients(std::vector<Amaxes>& amaxes) {
  Gradients whole;
  if (settings.gradients == "model") {
    ModelStep done = model_step(settings, inputs_of_step(), shards, fp8, mesh, ranks, *arithmetic);
    amaxes = std::move(done.amaxes);
    whole = std::move(done.gradients);
  } else {
    whole = whole_injected_gradients(settings, step);
    amaxes = injected_amaxes_of_step();
  }
  std::erase_if(whole, [&](const auto& one) { return is_frozen(settings, one.first, step); });
  return whole;
}

Gradients ReferenceRun::Parts::of_this_rank(const Gradients& whole) const {
  Gradients mine;
  for (const ParameterShard& shard : shards) {
    const auto found = whole.find(shard.name());
    if (found != whole.end()) mine[shard.name()] = shard.of_whole(found->second);
  }
  return mine;
}

// Of this rank's elements, by parameter; nothing where the step is skipped.
std::optional<Gradients> ReferenceRun::Parts::gradients(std::vector<Amaxes>& amaxes) {
  Gradients whole, mine;
  if (settings.gradients == "model" || kept.grad_norm) {
    whole = whole_gradients(amaxes);
    mine = of_this_rank(whole);
  } else {
    for (const ParameterShard& shard : shards) {
      if (is_frozen(settings, shard.name(), step)) continue;
      mine[shard.name()] = shard.injected_gradient(settings.seed, step);
    }
    amaxes = injected_amaxes_of_step();
  }
  if (overflows(mine)) return std::nullopt;
  if (kept.grad_norm) {
    kept.grad_norm = norm_of(norm_of_local_shards ? mine : whole);
    const float coefficient = clip_coefficient(settings.optimizer.clip_norm, *kept.grad_norm);
    for (auto& [name, values] : mine) multiply(values, coefficient);
  }
  return mine;
}

// On any rank.
bool ReferenceRun::Parts::overflows(const Gradients& mine) {
  if (!kept.scaler) return false;
  std::vector<std::uint32_t> seen = {0};
  for (const auto& [name, values] : mine) {
    if (kept.scaler->overflows(values)) seen[0] = 1;
  }
  ranks.all_reduce_max(seen);
  kept.scaler->update(seen[0] != 0);
  return seen[0] != 0;
}

void ReferenceRun::Parts::update_scales(const std::vector<Amaxes>& amaxes) {
  std::vector<std::uint32_t> bits;
  for (const Amaxes& of_layer : amaxes) bits.insert(bits.end(), of_layer.begin(), of_layer.end());
  if (reduces_amax && !bits.empty()) ranks.all_reduce_max(bits);
  for (std::size_t i = 0; i < fp8.size(); ++i) {
    Amaxes reduced = {};
    std::copy_n(bits.begin() + static_cast<std::ptrdiff_t>(i * reduced.size()), reduced.size(),
                reduced.begin());
    fp8[i].update(amaxes[i], reduced, *arithmetic);
  }
}

void ReferenceRun::Parts::update_parameters(const Gradients& gradients) {
  kept.groups.begin_step();
  const kernels::AdamWSettings of_step = optimizer_of_step();
  auto bits = rounding();
  std::vector<std::vector<kernels::CutBlock>> cuts;
  cuts.reserve(shards.size());
  for (ParameterShard& shard : shards) {
    const auto gradient = gradients.find(shard.name());
    if (gradient == gradients.end()) {
      cuts.emplace_back();
      continue;
    }
    cuts.push_back(shard.step(gradient->second, kept.groups.of(shard.name(), of_step),
                              std::move(bits[shard.name()]), *arithmetic));
  }
  finish_cut_blocks(cuts);
}

void ReferenceRun::step() {
  Parts& parts = *parts_;
  const bool saves_stale =
      parts.defects.has(Defect::stale_shard) || parts.defects.has(Defect::scale_inv_stale);
  if (saves_stale) parts.earlier = parts.state();
  ++parts.step;
  std::vector<Amaxes> amaxes;
  const std::optional<Gradients> gradients = parts.gradients(amaxes);
  parts.kept.advance_samples();
  parts.update_scales(amaxes);
  if (gradients) {
    parts.update_parameters(*gradients);
  } else if (parts.counts_skipped_steps) {
    parts.kept.groups.count_a_step();
  }
}

const std::vector<std::string>& defect_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const DefectDescription& one : defect_descriptions()) all.push_back(one.name);
    return all;
  }();
  return names;
}

}  // namespace resumecheck
