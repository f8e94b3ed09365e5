// The step of the model layernorm_mlp a second time, whole and on one rank, written from its
// description with nothing but loops: no chunks that could be owned by anyone, no kernels, no code
// in common with them.
#pragma once

#include <cstdint>
#include <vector>

namespace resumecheck::slow_twin {

// One layer's parameters, or their gradients.
struct Layer {
  std::vector<float> norm_weight, norm_bias;  // [width]
  std::vector<float> fc1_weight, fc1_bias;    // [hidden][width], [hidden]
  std::vector<float> fc2_weight, fc2_bias;    // [width][hidden], [width]
  struct Expert {
    std::vector<float> fc1_weight, fc1_bias, fc2_weight, fc2_bias;
  };
  std::vector<Expert> experts;  // in place of fc1 and fc2: sample s goes through s mod their number
};

// The scales that a step quantises by; empty in a model without FP8.
struct LayerScales {
  std::vector<float> forward, backward;  // [6], [4]
};

struct Model {
  std::int64_t width = 24, hidden = 48;
  std::vector<Layer> layers;
  std::vector<LayerScales> scales;          // one a layer, or none at all
  bool gradients_are_e4m3 = false;          // the format "e4m3"; else "hybrid"
  std::vector<std::vector<float>> dropout;  // one a layer [24][hidden]: factors of fc2's input; or
                                            // none at all
};

struct ModelStep {
  float loss = 0;
  std::vector<float> output;  // [24][width]
  std::vector<Layer> gradients;
  std::vector<LayerScales> amaxes;  // with FP8: the largest magnitudes of each column, 0 if unused
};

// x, target: [24][width].
ModelStep model_step(const Model& model, const std::vector<float>& x,
                     const std::vector<float>& target);

// 24 chunks of the terms, each added from its first to its last, then their sums in order.
float ordered_sum(const std::vector<float>& terms);

struct NormedRow {
  std::vector<float> h, xhat;
  float rstd = 0;
};
NormedRow layernorm(const std::vector<float>& x, const std::vector<float>& gamma,
                    const std::vector<float>& beta);
// dx without the residual.
std::vector<float> layernorm_backward(const NormedRow& forward, const std::vector<float>& gamma,
                                      const std::vector<float>& dh);
float squared_relu(float a);
float squared_relu_backward(float a, float dr);

// A float of 8 bits, saturating.
std::uint8_t saturating_float8(float value, bool is_e5m2);
float float8_meaning(std::uint8_t code, bool is_e5m2);

struct Scaling {
  bool fused = true, most_recent = false, is_e5m2 = false;
  int margin = 0;
  // A row is a vector of one entry a column; row 0 is the running one, the last the newest.
  std::vector<std::vector<float>> history;
  std::vector<float> scale, scale_inv;
};
void update_scaling(Scaling& scaling, const std::vector<float>& reduced);

}  // namespace resumecheck::slow_twin
