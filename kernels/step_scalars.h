// The numbers of one optimizer step that are the same for every element. They are computed once, on
// the host, in one place: a device that raised beta to a power by itself would give other bits.
#pragma once

namespace resumecheck::kernels {

struct StepScalars {
  float lr = 0, decay = 0;  // decay = lr * weight_decay
  // Of the linear interpolation from a moment towards the gradient, by 1 - beta: what multiplies
  // their difference, and to which of the two it is added. From the moment 1 - beta, from the
  // gradient -beta; the nearer one is the addend.
  float weight1 = 0, weight2 = 0;
  bool from_moment1 = true, from_moment2 = true;
  float bias1 = 0, bias2_sqrt = 0;
  float eps = 0;
};

}  // namespace resumecheck::kernels
