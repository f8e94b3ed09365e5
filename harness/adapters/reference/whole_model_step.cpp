#include "harness/adapters/reference/whole_model_step.h"

#include <cmath>

#include "harness/adapters/reference/model_step.h"
#include "harness/scenario/model_schema.h"
#include "kernels/float_bits.h"
#include "kernels/slow_model_twin.h"

namespace resumecheck {
namespace {

constexpr int kDataExponent = -11;  // of the targets too

std::vector<float> columns_of(const float* scales, int count) { return {scales, scales + count}; }

slow_twin::Layer layer_of(const Settings::Model& model, const WholeParameters& parameters,
                          std::int64_t layer) {
  const auto values = [&](std::int64_t expert, const char* name) {
    return parameters.of(layer, expert, name);
  };
  slow_twin::Layer made;
  made.norm_weight = values(0, "norm.weight");
  made.norm_bias = values(0, "norm.bias");
  for (std::int64_t e = 0; e < model.experts; ++e) {
    made.experts.push_back({values(e, "fc1.weight"), values(e, "fc1.bias"), values(e, "fc2.weight"),
                            values(e, "fc2.bias")});
  }
  if (model.experts > 0) return made;
  made.fc1_weight = values(0, "fc1.weight");
  made.fc1_bias = values(0, "fc1.bias");
  made.fc2_weight = values(0, "fc2.weight");
  made.fc2_bias = values(0, "fc2.bias");
  return made;
}

// Layers in ascending order: what is tied gets the sum of what each of them gives.
void give_gradients(ModelStep& step, const Settings::Model& model,
                    const slow_twin::Layer& gradients, std::int64_t layer) {
  const auto give = [&](std::int64_t expert, const char* name, const std::vector<float>& values) {
    std::vector<float>& gradient = step.gradients[parameter_name(model, layer, expert, name)];
    if (gradient.empty()) {
      gradient = values;
      return;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      gradient[i] = gradient[i] + values[i];
      if (std::isnan(gradient[i])) gradient[i] = kernels::float_of(0x7fc00000U);
    }
  };
  give(0, "norm.weight", gradients.norm_weight);
  give(0, "norm.bias", gradients.norm_bias);
  for (std::size_t e = 0; e < gradients.experts.size(); ++e) {
    const auto expert = static_cast<std::int64_t>(e);
    give(expert, "fc1.weight", gradients.experts[e].fc1_weight);
    give(expert, "fc1.bias", gradients.experts[e].fc1_bias);
    give(expert, "fc2.weight", gradients.experts[e].fc2_weight);
    give(expert, "fc2.bias", gradients.experts[e].fc2_bias);
  }
  if (!gradients.experts.empty()) return;
  give(0, "fc1.weight", gradients.fc1_weight);
  give(0, "fc1.bias", gradients.fc1_bias);
  give(0, "fc2.weight", gradients.fc2_weight);
  give(0, "fc2.bias", gradients.fc2_bias);
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
                                 Communicator& ranks)
    : model_(settings.model) {
  std::vector<float> mine;
  for (const ParameterShard& shard : shards) {
    const std::vector<float> values = shard.forward_values();
    mine.insert(mine.end(), values.begin(), values.end());
    by_name_[shard.name()].resize(static_cast<std::size_t>(shard.elements()));
  }
  const std::vector<Bytes> all = ranks.all_gather(std::as_bytes(std::span(mine)));
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const std::byte* from = all[static_cast<std::size_t>(rank)].data();
    for (const ParameterShard& shard : shards) {
      const Box box = box_of(shard.shape(), shard.placement(), mesh, rank);
      const auto bytes = static_cast<std::size_t>(box.element_count()) * sizeof(float);
      if (bytes == 0) continue;
      copy_region(box, box, {from, bytes}, Box::whole(shard.shape()),
                  std::as_writable_bytes(std::span(by_name_[shard.name()])), sizeof(float));
      from += bytes;
    }
  }
}

std::vector<float> samples_at(const Settings& settings, kernels::Stream stream,
                              const StepInputs& inputs, Rows samples) {
  const std::int64_t width = settings.model.width;
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>((samples.last - samples.first) * width));
  for (std::int64_t sample = samples.first; sample < samples.last; ++sample) {
    const std::int64_t index = inputs.data_index(sample);
    const auto step = static_cast<std::uint32_t>(index / logical_samples + 1);
    for (std::int64_t i = 0; i < width; ++i) {
      values.push_back(kernels::grid_value(
          settings.seed, stream, 0, step,
          static_cast<std::uint64_t>(index % logical_samples * width + i), kDataExponent));
    }
  }
  return values;
}

ModelStep whole_model_step(const Settings& settings, const StepInputs& inputs,
                           const WholeParameters& parameters, const std::vector<Fp8State>& fp8) {
  slow_twin::Model model;
  model.width = settings.model.width;
  model.hidden = settings.model.hidden;
  model.gradients_are_e4m3 = settings.fp8.format == "e4m3";
  for (std::int64_t i = 0; i < settings.model.layers; ++i) {
    model.layers.push_back(layer_of(settings.model, parameters, i));
    if (!inputs.dropout) continue;
    std::vector<float>& factors = model.dropout.emplace_back();
    for (std::int64_t sample = 0; sample < logical_samples; ++sample) {
      for (std::int64_t feature = 0; feature < settings.model.hidden; ++feature) {
        factors.push_back(inputs.dropout(i, sample, feature));
      }
    }
  }
  Amaxes unused = {};
  for (const Fp8State& state : fp8) {
    const kernels::BlockScaling scaling = state.scaling(unused);
    model.scales.push_back({columns_of(scaling.scale_forward, kernels::forward_columns),
                            columns_of(scaling.scale_backward, kernels::backward_columns)});
  }
  const Rows all = {0, logical_samples};
  const slow_twin::ModelStep done =
      slow_twin::model_step(model, samples_at(settings, kernels::Stream::data, inputs, all),
                            samples_at(settings, kernels::Stream::targets, inputs, all));
  ModelStep step;
  step.loss = done.loss;
  for (std::size_t i = 0; i < done.gradients.size(); ++i) {
    give_gradients(step, settings.model, done.gradients[i], static_cast<std::int64_t>(i));
  }
  for (const slow_twin::LayerScales& amaxes : done.amaxes) step.amaxes.push_back(bits_of(amaxes));
  return step;
}

}  // namespace resumecheck
