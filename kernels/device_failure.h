// What a CUDA call or a call of NCCL that fails throws: the device's failure or the driver's, and
// never a verdict about the run that was on it. A type of its own, since whoever judges must be
// able to tell it from an exception of what is under test.
#pragma once

#include <stdexcept>

namespace resumecheck::kernels {

class DeviceFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace resumecheck::kernels
