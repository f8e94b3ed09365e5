// What the ranks do together: the blocks that a shard boundary cuts take the maximum over all of
// them, in one exchange a step. Every rank lists the cut blocks of all parameters from the mesh
// alone, so that all agree on the exchange even where a rank holds nothing.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "harness/adapters/reference/checkpoint_folder.h"
#include "harness/adapters/reference/defect.h"
#include "harness/adapters/reference/parameter_shard.h"
#include "harness/adapters/reference/reference.h"
#include "harness/adapters/reference/rounding_generator.h"
#include "harness/scenario/capabilities.h"
#include "harness/state/error.h"
#include "harness/state/quantised_moment.h"

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

kernels::AdamWSettings adamw_settings(const Settings& settings) {
  const Settings::Optimizer& given = settings.optimizer;
  return {given.lr,  given.beta1,        given.beta2,
          given.eps, given.weight_decay, profile_of(given.profile)};
}

bool is_canonical(const std::string& profile) {
  return profile_of(profile) == kernels::Profile::canonical;
}

std::string generator_name(int rank) { return "rng/rank" + std::to_string(rank); }

// The whole state of a rank's generator, of which the state tells the digest; in a checkpoint only.
std::string saved_generator_name(int rank) { return "generator/rank" + std::to_string(rank); }

// What the optimizer carries beside its tensors, in a checkpoint only.
std::map<std::string, double*> hyperparameters(kernels::AdamWSettings& optimizer) {
  return {{"optimizer/lr", &optimizer.lr},
          {"optimizer/beta1", &optimizer.beta1},
          {"optimizer/beta2", &optimizer.beta2},
          {"optimizer/eps", &optimizer.eps},
          {"optimizer/weight_decay", &optimizer.weight_decay}};
}

void take_hyperparameters(const LogicalState& checkpoint, kernels::AdamWSettings& optimizer,
                          const std::string& where) {
  for (const auto& [name, value] : hyperparameters(optimizer)) {
    const auto found = checkpoint.values.find(name);
    const double* number =
        found == checkpoint.values.end() ? nullptr : std::get_if<double>(&found->second);
    if (number == nullptr) {
      throw Error(Error::Kind::subject, where, "holds no number " + name,
                  "load a checkpoint that this version saved");
    }
    *value = *number;
  }
}

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
  if (settings.gradients != "order_free") {
    throw unsupported("run.gradients",
                      "the reference has no gradients '" + settings.gradients + "'", "order_free");
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

struct ReferenceRun::Parts {
  Settings settings;
  Mesh mesh;
  Communicator& ranks;
  Defects defects;
  std::shared_ptr<const Arithmetic> arithmetic;
  kernels::AdamWSettings optimizer;
  std::vector<ParameterShard> shards;
  std::optional<RoundingGenerator> generator;
  std::int64_t step = 0;             // of the run: what the gradients follow
  std::optional<RankState> earlier;  // one step before, for stale_shard

  kernels::AdamWSettings optimizer_of_step() const;
  std::map<std::string, std::vector<std::uint16_t>> rounding();
  void take_generator(const LogicalState& checkpoint, const std::string& where);
  void mistake_after_load();
  RankState state() const;
  RankState state_to_save() const;
  void finish_cut_blocks(std::vector<std::vector<kernels::CutBlock>>& cuts);
};

ReferenceRun::ReferenceRun(const Settings& settings, std::uint64_t init_seed, const Mesh& mesh,
                           Communicator& ranks, const std::vector<std::string>& defects,
                           std::shared_ptr<const Arithmetic> arithmetic) {
  check_supported(settings);
  parts_ = std::make_unique<Parts>(Parts{
      settings, mesh, ranks, Defects(defects), std::move(arithmetic), adamw_settings(settings),
      shards_of(settings, init_seed, mesh, ranks.rank()), std::nullopt, 0, std::nullopt});
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
  state.values["lr/0"] = static_cast<double>(static_cast<float>(optimizer.lr));
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
    absmax[at] = cut.absmax1;
    absmax[at + 1] = cut.absmax2;
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
    const auto shard = std::find_if(shards.begin(), shards.end(),
                                    [&](const ParameterShard& one) { return one.name() == name; });
    bits[name] = generator ? generator->draw(shard->local_elements())
                           : shard->rounding_by_element(settings.seed, step);
  }
  return bits;
}

void ReferenceRun::step() {
  Parts& parts = *parts_;
  if (parts.defects.has(Defect::stale_shard)) parts.earlier = parts.state();
  ++parts.step;
  const kernels::AdamWSettings optimizer = parts.optimizer_of_step();
  auto rounding = parts.rounding();
  std::vector<std::vector<kernels::CutBlock>> cuts;
  for (ParameterShard& shard : parts.shards) {
    cuts.push_back(shard.step(parts.settings.seed, parts.step, optimizer,
                              std::move(rounding[shard.name()]), *parts.arithmetic));
  }
  parts.finish_cut_blocks(cuts);
}

// With stale_shard, the second shard (the only one, where there is one) is one step behind, but
// only in what no other shard holds as well: codebooks, steps and the scales of cut blocks stay,
// as replicas that disagree are a mistake of another kind.
RankState ReferenceRun::Parts::state_to_save() const {
  RankState now = state();
  if (!defects.has(Defect::stale_shard) || !earlier) return now;
  const int stale = std::min(1, mesh.size_of("dp") - 1);
  const auto coordinate = now.coordinates.find("dp");
  if ((coordinate == now.coordinates.end() ? 0 : coordinate->second) != stale) return now;
  for (std::size_t i = 0; i < now.pieces.size(); ++i) {
    Piece& piece = now.pieces[i];
    const bool everywhere =
        piece.global_shape.empty();  // steps, and parameters without a dimension
    if (everywhere || piece.key.part.find(".codebook") != std::string::npos) continue;
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
  return now;
}

void ReferenceRun::save(const std::filesystem::path& folder) const {
  RankState state = parts_->state_to_save();
  kernels::AdamWSettings optimizer = parts_->optimizer;
  for (const auto& [name, value] : hyperparameters(optimizer)) state.values[name] = *value;
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
  damage(checkpoint, parts.defects, parts.mesh);
  for (ParameterShard& shard : parts.shards) shard.take(checkpoint.state, folder.string());
  parts.take_generator(checkpoint.state, folder.string());
  for (const auto& entry : checkpoint.state.tensors) {
    const TensorKey& key = entry.first;
    const bool ours =
        std::any_of(parts.shards.begin(), parts.shards.end(),
                    [&](const ParameterShard& one) { return one.name() == key.name; });
    if (ours) continue;
    throw Error(Error::Kind::subject, folder.string(),
                "holds " + to_text(key) + ", a parameter that this run does not have",
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
  parts.optimizer = from.optimizer;
  parts.generator = from.generator;
  parts.step = from.step;
  parts.mistake_after_load();
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
