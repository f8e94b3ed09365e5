// What a run computes, independent of who computes it and on which mesh: the same settings go to
// the reference and, as JSON, to every Python adapter.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/state/box.h"

namespace resumecheck {

struct Settings {
  std::uint64_t seed = 1;
  std::vector<std::pair<std::string, Shape>>
      parameters;                    // as written; ordinals follow bytewise FQN order
  std::string param_dtype = "fp32";  // fp32 | bf16
  std::string master_dtype;  // "" | "fp32": beside bf16 parameters, the copy that is trained

  // With a kind, `parameters` are those of its layers: layers.<i>.norm.weight, ...
  struct Model {
    std::string kind;  // "": names and shapes as given | layernorm_mlp
    std::int64_t layers = 2;
    std::int64_t width = 24;
    std::int64_t hidden = 48;
    bool tied = false;         // all layers share layers.0.fc1.weight
    std::int64_t experts = 0;  // of each layer's fc1 and fc2; 0: one dense pair. Sample s uses s
                               // mod experts
    double dropout = 0;        // of fc2's input: 0 or 0.5
    std::vector<std::string> frozen;  // patterns of parameters that get no gradient ...
    std::int64_t frozen_from = 1;     // ... in these steps
    std::int64_t frozen_until = 0;    // 0: to the end
    bool operator==(const Model&) const = default;
  } model;

  // The amax history and scales that the layers of a model keep.
  struct Fp8 {
    std::string recipe;  // "": none | delayed; stateless: current | block | mxfp8
    std::int64_t amax_history_len = 16;
    std::string amax_compute_algo = "max";  // max | most_recent
    std::int64_t margin = 0;                // the scale is 2^-margin of what would fit
    std::string format = "hybrid";          // hybrid (E4M3 forward, E5M2 backward) | e4m3
    std::string update = "fused";           // fused | unfused
    bool reduce_amax = true;                // over all ranks
    bool operator==(const Fp8&) const = default;
  } fp8;

  struct Optimizer {
    std::string name = "adamw8bit";     // adamw8bit | adamw4bit | adamwfp8 | adamw | sgd
    std::string profile = "canonical";  // canonical | torchao_eager | torchao_compiled
    std::string profile_after_save;  // "": the same. In both runs, from the step after the save on
    double lr = 1e-3;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double eps = 1e-8;
    double weight_decay = 0.01;
    std::int64_t block = 256;  // 128 for adamw4bit unless it is given
    std::int64_t min_quantised_elements = 4096;
    bool stochastic_rounding = false;  // of bf16 parameters

    // The first group whose patterns fit a parameter takes it; group 0 is what none takes.
    struct Group {
      std::vector<std::string> parameters;
      double lr = 1e-3;
      double weight_decay = 0.01;
      bool operator==(const Group&) const = default;
    };
    std::vector<Group> groups;
    std::string schedule;             // "": lr as given | linear_warmup
    std::int64_t schedule_steps = 0;  // until lr is whole
    double clip_norm = 0;             // of the gradients of all parameters; 0: none
    bool operator==(const Optimizer&) const = default;
  } optimizer;

  // Gradients of a scaled loss, as beside fp16: one beyond `largest` skips the step and halves the
  // scale, `growth_interval` steps without double it.
  struct LossScale {
    double initial = 0;  // a power of two; 0: none
    std::int64_t growth_interval = 2000;
    double largest = 65504;
    bool operator==(const LossScale&) const = default;
  } loss_scale;

  std::string gradients = "order_free";  // order_free (injected) | model (of its 24 samples)
  std::string data = "by_step";          // by_step | stream: from a position that is saved
  std::int64_t accumulate = 1;           // micro-batches a step
  std::int64_t save_after = 3;           // steps before the save
  std::int64_t train_until = 6;          // last step of both runs
  std::int64_t resumes = 1;              // in a row: one step, a save and a load, on the other mesh
  std::string save_format = "native";

  bool operator==(const Settings&) const = default;
};

// What a run uses beyond parameters and one optimizer on all of them, by name: each an adapter must
// declare. tied, experts, dropout, frozen, groups, schedule, clip_norm, loss_scale, data, resumes.
std::vector<std::string> features_of(const Settings& settings);

}  // namespace resumecheck
