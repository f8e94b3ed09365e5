// That the gradients are the derivative of the loss: a slow twin written from the same page can
// share a mistake with the kernels, a difference quotient cannot. And what a block does to the FP8
// state that it is given.
#include "kernels/layernorm_mlp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "kernels/float_bits.h"
#include "kernels/slow_model_twin.h"
#include "kernels/twin_inputs.h"

namespace resumecheck::kernels {
namespace {

constexpr std::size_t samples = 24, width = 24, hidden = 48;

std::vector<float> drawn(Draw& draw, std::size_t count, float magnitude, float around = 0.0F) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(around + magnitude * (static_cast<float>(draw.word() >> 20) / 2048.0F - 1.0F));
  return values;
}

slow_twin::Layer drawn_layer(Draw& draw) {
  slow_twin::Layer layer;
  layer.norm_weight = drawn(draw, width, 0.3F, 1.0F);
  layer.norm_bias = drawn(draw, width, 0.2F);
  layer.fc1_weight = drawn(draw, hidden * width, 0.4F);
  layer.fc1_bias = drawn(draw, hidden, 0.2F);
  layer.fc2_weight = drawn(draw, width * hidden, 0.4F);
  layer.fc2_bias = drawn(draw, width, 0.2F);
  return layer;
}

using Tensor = std::vector<float> slow_twin::Layer::*;
constexpr Tensor tensors[] = {&slow_twin::Layer::norm_weight, &slow_twin::Layer::norm_bias,
                              &slow_twin::Layer::fc1_weight,  &slow_twin::Layer::fc1_bias,
                              &slow_twin::Layer::fc2_weight,  &slow_twin::Layer::fc2_bias};

// ---- The loss in double, from the formulas of a textbook
// -----------------------------------------

using Doubles = std::vector<double>;

struct DoubleLayer {
  Doubles norm_weight, norm_bias, fc1_weight, fc1_bias, fc2_weight, fc2_bias;
};

Doubles doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

DoubleLayer doubles(const slow_twin::Layer& layer) {
  return {doubles(layer.norm_weight), doubles(layer.norm_bias),  doubles(layer.fc1_weight),
          doubles(layer.fc1_bias),    doubles(layer.fc2_weight), doubles(layer.fc2_bias)};
}

Doubles normalised(const Doubles& x, const DoubleLayer& layer) {
  double mean = 0, variance = 0;
  for (const double value : x) mean += value / width;
  for (const double value : x) variance += (value - mean) * (value - mean) / width;
  Doubles h;
  for (std::size_t i = 0; i < width; ++i)
    h.push_back((x[i] - mean) / std::sqrt(variance + std::ldexp(1.0, -16)) * layer.norm_weight[i] +
                layer.norm_bias[i]);
  return h;
}

Doubles linear(const Doubles& x, const Doubles& weight, const Doubles& bias) {
  Doubles y = bias;
  for (std::size_t out = 0; out < y.size(); ++out)
    for (std::size_t in = 0; in < x.size(); ++in) y[out] += weight[out * x.size() + in] * x[in];
  return y;
}

double loss_in_double(const std::vector<DoubleLayer>& layers, const std::vector<float>& x,
                      const std::vector<float>& target) {
  double loss = 0;
  for (std::size_t sample = 0; sample < samples; ++sample) {
    Doubles current(x.begin() + static_cast<std::ptrdiff_t>(sample * width),
                    x.begin() + static_cast<std::ptrdiff_t>((sample + 1) * width));
    for (const DoubleLayer& layer : layers) {
      Doubles r = linear(normalised(current, layer), layer.fc1_weight, layer.fc1_bias);
      for (double& value : r) value = value > 0 ? value * value : 0;
      const Doubles y = linear(r, layer.fc2_weight, layer.fc2_bias);
      for (std::size_t i = 0; i < width; ++i) current[i] += y[i];
    }
    for (std::size_t i = 0; i < width; ++i) {
      const double d = current[i] - target[sample * width + i];
      loss += 0.5 * d * d;
    }
  }
  return loss;
}

// ---- Comparing the two
// ----------------------------------------------------------------------------

struct Problem {
  slow_twin::Model model;
  std::vector<float> x, target;
};

Problem drawn_problem(std::uint32_t seed) {
  Draw draw(seed);
  Problem problem;
  problem.model.width = width;
  problem.model.hidden = hidden;
  for (int i = 0; i < 2; ++i) problem.model.layers.push_back(drawn_layer(draw));
  problem.x = drawn(draw, samples * width, 1.0F);
  problem.target = drawn(draw, samples * width, 1.0F);
  return problem;
}

using DoubleTensor = Doubles DoubleLayer::*;
constexpr DoubleTensor double_tensors[] = {&DoubleLayer::norm_weight, &DoubleLayer::norm_bias,
                                           &DoubleLayer::fc1_weight,  &DoubleLayer::fc1_bias,
                                           &DoubleLayer::fc2_weight,  &DoubleLayer::fc2_bias};

// How far the gradient of one tensor is from the difference quotient along a random direction, as a
// share of what the direction's parts add up to without their signs.
double gradient_error(const Problem& problem, std::size_t layer, std::size_t tensor,
                      const std::vector<float>& gradient, std::uint32_t seed) {
  Draw draw(seed);
  const std::vector<float> direction = drawn(draw, gradient.size(), 1.0F);
  constexpr double step = 1e-6;
  const auto loss_at = [&](double distance) {
    std::vector<DoubleLayer> layers;
    for (const slow_twin::Layer& each : problem.model.layers) layers.push_back(doubles(each));
    Doubles& moved = layers[layer].*double_tensors[tensor];
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += distance * direction[i];
    return loss_in_double(layers, problem.x, problem.target);
  };
  const double quotient = (loss_at(step) - loss_at(-step)) / (2 * step);
  double along = 0, size = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    along += static_cast<double>(gradient[i]) * direction[i];
    size += std::fabs(static_cast<double>(gradient[i]) * direction[i]);
  }
  return std::fabs(along - quotient) / size;
}

// fp32 rounds a few hundred times on the way to a gradient, each time by at most 6e-8; the quotient
// itself is good to about 1e-9. Seen: at most 2e-7; the smallest of the mistakes below makes 2e-5.
constexpr double tolerance = 2e-6;

TEST(Gradients, AreTheDerivativeOfTheLoss) {
  for (const std::uint32_t seed : {1U, 2U, 3U}) {
    const Problem problem = drawn_problem(seed);
    const slow_twin::ModelStep step =
        slow_twin::model_step(problem.model, problem.x, problem.target);
    for (std::size_t layer = 0; layer < 2; ++layer)
      for (std::size_t tensor = 0; tensor < std::size(tensors); ++tensor)
        EXPECT_LT(gradient_error(problem, layer, tensor, step.gradients[layer].*tensors[tensor],
                                 seed * 100),
                  tolerance)
            << "layer " << layer << ", tensor " << tensor;
  }
}

TEST(Gradients, ThatAreALittleWrongAreSeen) {
  const Problem problem = drawn_problem(1);
  const slow_twin::ModelStep step = slow_twin::model_step(problem.model, problem.x, problem.target);
  const auto error_of = [&](std::size_t tensor, const std::function<void(float&)>& change) {
    std::vector<float> gradient = step.gradients[0].*tensors[tensor];
    for (float& value : gradient) change(value);
    return gradient_error(problem, 0, tensor, gradient, 100);
  };
  for (std::size_t tensor = 0; tensor < std::size(tensors); ++tensor) {
    EXPECT_GT(error_of(tensor, [](float& value) { value *= 1.001F; }), tolerance) << tensor;
    EXPECT_GT(error_of(tensor, [](float& value) { value = -value; }), tolerance) << tensor;
    EXPECT_GT(error_of(tensor,
                       [first = true](float& value) mutable {
                         if (first) value = 0;
                         first = false;
                       }),
              tolerance)
        << tensor << ", one element missing";
  }
}

TEST(Loss, IsTheOneOfTheTextbook) {
  const Problem problem = drawn_problem(4);
  std::vector<DoubleLayer> layers;
  for (const slow_twin::Layer& each : problem.model.layers) layers.push_back(doubles(each));
  const double want = loss_in_double(layers, problem.x, problem.target);
  const double got = slow_twin::model_step(problem.model, problem.x, problem.target).loss;
  EXPECT_NEAR(got / want, 1.0, 1e-6);
  EXPECT_GT(want, 1.0) << "there is something to learn";
}

// ---- FP8 state
// --------------------------------------------------------------------------------------

struct Block {
  slow_twin::Layer layer;
  std::vector<float> scale_forward = std::vector<float>(forward_columns, 4.0F);
  std::vector<float> scale_inv_forward = std::vector<float>(forward_columns, 0.25F);
  std::vector<float> scale_backward = std::vector<float>(backward_columns, 8.0F);
  std::vector<float> scale_inv_backward = std::vector<float>(backward_columns, 0.125F);
  std::vector<std::uint32_t> amax_forward = std::vector<std::uint32_t>(forward_columns);
  std::vector<std::uint32_t> amax_backward = std::vector<std::uint32_t>(backward_columns);

  BlockScaling scaling() {
    BlockScaling result;
    result.scale_forward = scale_forward.data();
    result.scale_inv_forward = scale_inv_forward.data();
    result.scale_backward = scale_backward.data();
    result.scale_inv_backward = scale_inv_backward.data();
    result.amax_forward = amax_forward.data();
    result.amax_backward = amax_backward.data();
    return result;
  }
  BlockParameters parameters() const {
    return {layer.norm_weight.data(), layer.norm_bias.data(),  layer.fc1_weight.data(),
            layer.fc1_bias.data(),    layer.fc2_weight.data(), layer.fc2_bias.data()};
  }
  // dx of some rows, by way of y; dy is y.
  std::vector<float> run(const std::vector<float>& x) {
    const ModelKernels kernels = host_model_kernels(best_isa());
    const BlockShape shape = {width, hidden};
    const BlockScaling state = scaling();
    std::vector<float> y(x.size()), dx(x.size());
    const BlockActivations kept =
        forward_block(kernels, shape, parameters(), &state, x.data(),
                      static_cast<std::int64_t>(x.size() / width), y.data());
    backward_block(kernels, shape, parameters(), &state, kept, y.data(), dx.data());
    return dx;
  }
};

Block drawn_block() {
  Draw draw(9);
  Block block;
  block.layer = drawn_layer(draw);
  return block;
}

TEST(Amax, IsRaisedByEachMicroBatchInTheColumnsInUseAndOnlyThere) {
  Draw draw(5);
  const std::vector<float> x = drawn(draw, samples * width, 1.0F);
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(samples / 2 * width);
  Block whole = drawn_block(), first = drawn_block(), both = drawn_block();
  whole.run(x);
  first.run({x.begin(), middle});
  both.run({x.begin(), middle});
  both.run({middle, x.end()});
  EXPECT_EQ(both.amax_forward, whole.amax_forward);
  EXPECT_EQ(both.amax_backward, whole.amax_backward);
  EXPECT_NE(first.amax_forward, whole.amax_forward) << "the second half has a larger one";
  for (const int column : {2, 5}) EXPECT_EQ(whole.amax_forward[column], 0U) << column;
  for (const int column : {1, 3}) EXPECT_EQ(whole.amax_backward[column], 0U) << column;
  for (const int column : {fc1_input, fc1_weight, fc2_input, fc2_weight})
    EXPECT_GT(whole.amax_forward[column], 0U) << column;
  for (const int column : {fc1_output_gradient, fc2_output_gradient})
    EXPECT_GT(whole.amax_backward[column], 0U) << column;
}

TEST(Amax, OfAnEarlierMicroBatchIsNotLowered) {
  Draw draw(6);
  Block block = drawn_block();
  block.amax_forward.assign(forward_columns, bits_of(1e9F));
  block.amax_backward.assign(backward_columns, bits_of(1e9F));
  block.run(drawn(draw, samples * width, 1.0F));
  EXPECT_EQ(block.amax_forward, std::vector<std::uint32_t>(forward_columns, bits_of(1e9F)));
  EXPECT_EQ(block.amax_backward, std::vector<std::uint32_t>(backward_columns, bits_of(1e9F)));
}

// Each scale and each scale_inv of a column in use reaches the result; those of the others do not.
TEST(Scales, ReachTheResultColumnByColumn) {
  Draw draw(7);
  const std::vector<float> x = drawn(draw, samples * width, 1.0F);
  const std::vector<float> dx = drawn_block().run(x);
  using State = std::vector<float> Block::*;
  const auto changed = [&](State state, int column) {
    Block block = drawn_block();
    (block.*state)[static_cast<std::size_t>(column)] *= 1.5F;
    return block.run(x) != dx;
  };
  for (const State state : {&Block::scale_forward, &Block::scale_inv_forward})
    for (int column = 0; column < forward_columns; ++column)
      EXPECT_EQ(changed(state, column), column != 2 && column != 5) << column;
  for (const State state : {&Block::scale_backward, &Block::scale_inv_backward})
    for (int column = 0; column < backward_columns; ++column)
      EXPECT_EQ(changed(state, column), column == 0 || column == 2) << column;
}

}  // namespace
}  // namespace resumecheck::kernels
