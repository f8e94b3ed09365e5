#include "harness/adapters/reference/whole_model_step.h"

#include <fmt/format.h>

#include <cstring>

#include "harness/adapters/reference/model_step.h"
#include "harness/scenario/model_schema.h"
#include "kernels/float_bits.h"
#include "kernels/slow_model_twin.h"

namespace resumecheck {
namespace {

constexpr int kDataExponent = -11;  // of the targets too

std::vector<float> columns_of(const float* scales, int count) { return {scales, scales + count}; }

slow_twin::Layer layer_of(const WholeParameters& parameters, std::size_t layer) {
  const auto values = [&](const char* name) {
    return parameters.by_name.at(fmt::format("layers.{}.{}", layer, name));
  };
  return {values("norm.weight"), values("norm.bias"),  values("fc1.weight"),
          values("fc1.bias"),    values("fc2.weight"), values("fc2.bias")};
}

void give_gradients(ModelStep& step, const slow_twin::Layer& gradients, std::size_t layer) {
  const auto give = [&](const char* name, const std::vector<float>& values) {
    step.gradients[fmt::format("layers.{}.{}", layer, name)] = values;
  };
  give("norm.weight", gradients.norm_weight);
  give("norm.bias", gradients.norm_bias);
  give("fc1.weight", gradients.fc1_weight);
  give("fc1.bias", gradients.fc1_bias);
  give("fc2.weight", gradients.fc2_weight);
  give("fc2.bias", gradients.fc2_bias);
}

Amaxes bits_of(const slow_twin::LayerScales& amaxes) {
  Amaxes bits = {};
  std::size_t at = 0;
  for (const float amax : amaxes.forward) bits[at++] = kernels::bits_of(amax);
  for (const float amax : amaxes.backward) bits[at++] = kernels::bits_of(amax);
  return bits;
}

}  // namespace

WholeParameters::WholeParameters(const Settings& settings,
                                 const std::vector<ParameterShard>& shards, const Mesh& mesh,
                                 Communicator& ranks) {
  std::vector<float> mine;
  for (const ParameterShard& shard : shards) {
    const std::vector<float> values = shard.forward_values();
    mine.insert(mine.end(), values.begin(), values.end());
    by_name[shard.name()].resize(static_cast<std::size_t>(shard.elements()));
  }
  const std::vector<Bytes> all = ranks.all_gather(std::as_bytes(std::span(mine)));
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const std::byte* from = all[static_cast<std::size_t>(rank)].data();
    for (const ParameterShard& shard : shards) {
      const Box box = box_of(shard.shape(), shard.placement(), mesh, rank);
      const auto bytes = static_cast<std::size_t>(box.element_count()) * sizeof(float);
      if (bytes == 0) continue;
      copy_region(box, box, {from, bytes}, Box::whole(shard.shape()),
                  std::as_writable_bytes(std::span(by_name[shard.name()])), sizeof(float));
      from += bytes;
    }
  }
  for (std::int64_t i = 0; i < settings.model.layers; ++i) {
    const auto values = [&](const char* name) {
      return by_name.at(fmt::format("layers.{}.{}", i, name)).data();
    };
    layers.push_back({values("norm.weight"), values("norm.bias"), values("fc1.weight"),
                      values("fc1.bias"), values("fc2.weight"), values("fc2.bias")});
  }
}

std::vector<float> samples_of_step(const Settings& settings, kernels::Stream stream,
                                   std::int64_t run_step, Rows samples) {
  const std::int64_t width = settings.model.width;
  std::vector<float> values;
  for (std::int64_t i = samples.first * width; i < samples.last * width; ++i) {
    values.push_back(kernels::grid_value(settings.seed, stream, 0,
                                         static_cast<std::uint32_t>(run_step),
                                         static_cast<std::uint64_t>(i), kDataExponent));
  }
  return values;
}

ModelStep whole_model_step(const Settings& settings, std::int64_t run_step,
                           const WholeParameters& parameters, const std::vector<Fp8State>& fp8) {
  slow_twin::Model model;
  model.width = settings.model.width;
  model.hidden = settings.model.hidden;
  model.gradients_are_e4m3 = settings.fp8.format == "e4m3";
  for (std::size_t i = 0; i < parameters.layers.size(); ++i) {
    model.layers.push_back(layer_of(parameters, i));
  }
  Amaxes unused = {};
  for (const Fp8State& state : fp8) {
    const kernels::BlockScaling scaling = state.scaling(unused);
    model.scales.push_back({columns_of(scaling.scale_forward, kernels::forward_columns),
                            columns_of(scaling.scale_backward, kernels::backward_columns)});
  }
  const Rows all = {0, logical_samples};
  const slow_twin::ModelStep done =
      slow_twin::model_step(model, samples_of_step(settings, kernels::Stream::data, run_step, all),
                            samples_of_step(settings, kernels::Stream::targets, run_step, all));
  ModelStep step;
  step.loss = done.loss;
  for (std::size_t i = 0; i < done.gradients.size(); ++i) {
    give_gradients(step, done.gradients[i], i);
  }
  for (const slow_twin::LayerScales& amaxes : done.amaxes) step.amaxes.push_back(bits_of(amaxes));
  return step;
}

}  // namespace resumecheck
