#include "harness/adapters/reference/model_step.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "harness/adapters/reference/whole_model_step.h"
#include "harness/scenario/model_schema.h"

namespace resumecheck {
namespace {

using kernels::BlockActivations;
using kernels::BlockContributions;
using kernels::BlockShape;
using kernels::ModelKernels;

constexpr std::vector<float> BlockContributions::*of_parameter[] = {
    &BlockContributions::norm_weight, &BlockContributions::norm_bias,
    &BlockContributions::fc1_weight,  &BlockContributions::fc1_bias,
    &BlockContributions::fc2_weight,  &BlockContributions::fc2_bias};

void append(std::vector<float>& to, const std::vector<float>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// What each rank gives, in the order of the ranks.
std::vector<std::vector<float>> gather(Communicator& ranks, const std::vector<float>& mine) {
  std::vector<std::vector<float>> all;
  for (const Bytes& bytes : ranks.all_gather(std::as_bytes(std::span(mine)))) {
    all.emplace_back(bytes.size() / sizeof(float));
    if (!bytes.empty()) std::memcpy(all.back().data(), bytes.data(), bytes.size());
  }
  return all;
}

// One step's own pass over the samples of this rank.
class Pass {
 public:
  Pass(const Settings& settings, const WholeParameters& parameters,
       const std::vector<Fp8State>& fp8, const ModelKernels& kernels)
      : settings_(settings),
        parameters_(parameters),
        kernels_(kernels),
        shape_{settings.model.width, settings.model.hidden},
        contributions_(parameters.layers.size()) {
    amaxes_.resize(fp8.size());
    for (std::size_t i = 0; i < fp8.size(); ++i) scaling_.push_back(fp8[i].scaling(amaxes_[i]));
  }

  // Samples of one micro-batch, forward and backward.
  void run(const std::vector<float>& x, const std::vector<float>& target, std::int64_t rows) {
    std::vector<float> y = x, next(x.size());
    std::vector<BlockActivations> activations;
    for (std::size_t i = 0; i < contributions_.size(); ++i) {
      activations.push_back(kernels::forward_block(kernels_, shape_, parameters_.layers[i],
                                                   scaling(i), y.data(), rows, next.data()));
      y.swap(next);
    }
    std::vector<float> dy(y.size()), losses(static_cast<std::size_t>(rows));
    kernels_.squared_error(y.data(), target.data(), rows, shape_.width, dy.data(), losses.data());
    append(losses_, losses);
    for (std::size_t i = contributions_.size(); i-- > 0;) {
      const BlockContributions of_block =
          kernels::backward_block(kernels_, shape_, parameters_.layers[i], scaling(i),
                                  activations[i], dy.data(), next.data());
      for (const auto part : of_parameter) append(contributions_[i].*part, of_block.*part);
      dy.swap(next);
    }
  }

  // Of all ranks, added in the order of the samples.
  ModelStep add(const Mesh& mesh, Communicator& ranks) {
    ModelStep step;
    const std::vector<float> losses = in_order(mesh, ranks, losses_);
    kernels_.add_chunk_sums(losses.data(), 1, &step.loss);
    for (std::size_t i = 0; i < contributions_.size(); ++i) {
      for (std::size_t part = 0; part < std::size(of_parameter); ++part) {
        const auto& [name, shape] =
            settings_.parameters[i * std::size(of_parameter) + part];  // as parameters_of writes
        const std::vector<float> samples =
            in_order(mesh, ranks, contributions_[i].*of_parameter[part]);
        std::vector<float>& gradient = step.gradients[name];
        gradient.resize(static_cast<std::size_t>(element_count(shape)));
        if (shape.size() == 2) {
          const bool second = of_parameter[part] == &BlockContributions::fc2_weight;
          kernels::add_weight_samples(kernels_, shape_, scaling(i), second, samples.data(),
                                      gradient.data());
        } else {
          kernels::add_samples(kernels_, samples.data(), element_count(shape), gradient.data());
        }
      }
    }
    step.amaxes = amaxes_;
    return step;
  }

 private:
  const kernels::BlockScaling* scaling(std::size_t layer) const {
    return scaling_.empty() ? nullptr : &scaling_[layer];
  }

  // Each rank holds consecutive samples; which ones is not the order of the ranks on every mesh.
  static std::vector<float> in_order(const Mesh& mesh, Communicator& ranks,
                                     const std::vector<float>& mine) {
    std::vector<int> order(static_cast<std::size_t>(ranks.size()));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return samples_of(mesh, a).first < samples_of(mesh, b).first;
    });
    const std::vector<std::vector<float>> by_rank = gather(ranks, mine);
    std::vector<float> all;
    for (const int rank : order) append(all, by_rank[static_cast<std::size_t>(rank)]);
    return all;
  }

  const Settings& settings_;
  const WholeParameters& parameters_;
  const ModelKernels& kernels_;
  BlockShape shape_;
  std::vector<Amaxes> amaxes_;  // by layer, or none; the scaling points into it
  std::vector<kernels::BlockScaling> scaling_;
  std::vector<BlockContributions> contributions_;  // by layer
  std::vector<float> losses_;
};

}  // namespace

Rows samples_of(const Mesh& mesh, int rank) {
  const auto coordinates = mesh.coordinates(rank);
  const auto coordinate = [&](const char* dim) {
    const auto found = coordinates.find(dim);
    return found == coordinates.end() ? 0 : found->second;
  };
  const int index = coordinate("rep") * mesh.size_of("dp") + coordinate("dp");
  return chunk(logical_samples, mesh.size_of("rep") * mesh.size_of("dp"), index);
}

ModelStep model_step(const Settings& settings, std::int64_t run_step,
                     const std::vector<ParameterShard>& shards, const std::vector<Fp8State>& fp8,
                     const Mesh& mesh, Communicator& ranks, const Arithmetic& arithmetic) {
  const WholeParameters parameters(settings, shards, mesh, ranks);
  const ModelKernels* kernels = arithmetic.model();
  if (kernels == nullptr) {
    if (mesh.world() != 1) throw std::logic_error("the slow twin computes whole steps only");
    return whole_model_step(settings, run_step, parameters, fp8);
  }
  Pass pass(settings, parameters, fp8, *kernels);
  const Rows mine = samples_of(mesh, ranks.rank());
  const auto batches = static_cast<int>(settings.accumulate);
  for (int batch = 0; batch < batches; ++batch) {
    const Rows rows = chunk(mine.last - mine.first, batches, batch);
    const Rows samples = {mine.first + rows.first, mine.first + rows.last};
    if (samples.first == samples.last) continue;
    pass.run(samples_of_step(settings, kernels::Stream::data, run_step, samples),
             samples_of_step(settings, kernels::Stream::targets, run_step, samples),
             samples.last - samples.first);
  }
  return pass.add(mesh, ranks);
}

}  // namespace resumecheck
