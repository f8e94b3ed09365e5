// The numbers of one optimizer step that are the same for every element. They are computed once, on
// the host, in one place: a device that raised beta to a power by itself would give other bits.
#pragma once

namespace resumecheck::kernels {

struct StepScalars {
  float lr = 0, decay = 0;         // decay = lr * weight_decay
  float weight1 = 0, weight2 = 0;  // 1 - beta, in double, then rounded
  float bias1 = 0, bias2_sqrt = 0;
  float eps = 0;
};

}  // namespace resumecheck::kernels
