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

kernels::AdamWSettings adamw_settings(const Settings& settings) {
  const Settings::Optimizer& given = settings.optimizer;
  return {given.lr, given.beta1, given.beta2, given.eps, given.weight_decay, profile_of(settings)};
}

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

void check_supported(const Settings& settings) {
  if (settings.optimizer.name != "adamw8bit") {
    throw Error(Error::Kind::usage, "optimizer.name",
                "the reference has no optimizer '" + settings.optimizer.name + "'", "adamw8bit");
  }
  if (settings.gradients != "order_free") {
    throw Error(Error::Kind::usage, "run.gradients",
                "the reference has no gradients '" + settings.gradients + "'", "order_free");
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
  std::int64_t step = 0;             // of the run: what the gradients follow
  std::optional<RankState> earlier;  // one step before, for stale_shard

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
      shards_of(settings, init_seed, mesh, ranks.rank()), 0, std::nullopt});
  if (mesh.world() != ranks.size()) {
    throw Error(Error::Kind::harness, "mesh " + mesh.text(),
                "needs " + std::to_string(mesh.world()) + " ranks, there are " +
                    std::to_string(ranks.size()),
                "start as many ranks as the mesh has");
  }
}

ReferenceRun::~ReferenceRun() = default;

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

void ReferenceRun::step() {
  Parts& parts = *parts_;
  if (parts.defects.has(Defect::stale_shard)) parts.earlier = parts.state();
  ++parts.step;
  std::vector<std::vector<kernels::CutBlock>> cuts;
  for (ParameterShard& shard : parts.shards) {
    cuts.push_back(shard.step(parts.settings.seed, parts.step, parts.optimizer, *parts.arithmetic));
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
  write_rank_state(folder, state);
}

void ReferenceRun::load(const std::filesystem::path& folder) {
  Parts& parts = *parts_;
  AssembledState checkpoint = read_checkpoint(folder);
  damage(checkpoint, parts.defects, parts.mesh);
  for (ParameterShard& shard : parts.shards) {
    shard.take(checkpoint.state, folder.string());
    if (parts.defects.has(Defect::cast_moments_to_param_dtype)) shard.cast_moments_to_param_dtype();
    if (parts.defects.has(Defect::step_restarts)) shard.restart_step();
  }
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
