// The scalars of one step, by each profile's rule. Frameworks differ here in the last bit, and a
// difference here is a difference in every element.
#include <cmath>
#include <stdexcept>

#include "kernels/adamw.h"

namespace resumecheck::kernels {
namespace {

struct Lerp {
  float weight;
  bool from_moment;
};

// Everything in double, by multiplications alone (no library's pow), rounded once.
struct CanonicalScalars {
  static float decay(double lr, double weight_decay) {
    return static_cast<float>(lr * weight_decay);
  }
  static float bias(double beta, std::int64_t step) {
    double power = 1.0;
    for (std::int64_t i = 0; i < step; ++i) power *= beta;
    return static_cast<float>(1.0 - power);
  }
  // ATen's rule: 1 - beta is rounded before it is compared with a half and before 1 is taken off.
  static Lerp lerp(double beta) {
    const auto weight = static_cast<float>(1.0 - beta);
    const bool from_moment = std::fabs(weight) < 0.5F;
    return {from_moment ? weight : weight - 1.0F, from_moment};
  }
};

// As torch's fp32 tensors do it, the C library's powf included, which is not correctly rounded.
struct TorchaoEagerScalars {
  static float decay(double lr, double weight_decay) {
    return static_cast<float>(lr) * static_cast<float>(weight_decay);
  }
  static float bias(double beta, std::int64_t step) {
    return 1.0F - powf(static_cast<float>(beta), static_cast<float>(step));
  }
  static Lerp lerp(double beta) { return CanonicalScalars::lerp(beta); }
};

// inductor's C++ for a CPU has the same powf and product, but it folds the weight in double when it
// writes the code: 1 - beta, or that less 1, stands there as a constant.
struct TorchaoCompiledScalars : TorchaoEagerScalars {
  static Lerp lerp(double beta) {
    const double weight = 1.0 - beta;
    const bool from_moment = std::fabs(weight) < 0.5;
    return {static_cast<float>(from_moment ? weight : weight - 1.0), from_moment};
  }
};

template <class Rule>
StepScalars scalars_by(const AdamWSettings& settings, std::int64_t step) {
  StepScalars scalars;
  scalars.lr = static_cast<float>(settings.lr);
  scalars.decay = Rule::decay(settings.lr, settings.weight_decay);
  const Lerp lerp1 = Rule::lerp(settings.beta1), lerp2 = Rule::lerp(settings.beta2);
  scalars.weight1 = lerp1.weight;
  scalars.weight2 = lerp2.weight;
  scalars.from_moment1 = lerp1.from_moment;
  scalars.from_moment2 = lerp2.from_moment;
  scalars.bias1 = Rule::bias(settings.beta1, step);
  scalars.bias2_sqrt = sqrtf(Rule::bias(settings.beta2, step));
  scalars.eps = static_cast<float>(settings.eps);
  return scalars;
}

}  // namespace

StepScalars step_scalars(const AdamWSettings& settings, std::int64_t step) {
  if (step < 1) throw std::invalid_argument("kernels: the optimizer's steps count from 1");
  switch (settings.profile) {
    case Profile::canonical:
      return scalars_by<CanonicalScalars>(settings, step);
    case Profile::torchao_eager:
      return scalars_by<TorchaoEagerScalars>(settings, step);
    case Profile::torchao_compiled:
      return scalars_by<TorchaoCompiledScalars>(settings, step);
  }
  throw std::invalid_argument("kernels: unknown arithmetic profile");
}

}  // namespace resumecheck::kernels
