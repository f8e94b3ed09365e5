// The reference's step on a CUDA device. Only programs that may use one link this; the core program
// starts in milliseconds because it does not.
#pragma once

#include "harness/adapters/reference/arithmetic.h"

namespace resumecheck {

int usable_devices();  // 0 where there is none, no driver, or no device code in this program
std::string usable_device_name();

std::shared_ptr<const Arithmetic> device_arithmetic();  // Error(harness) where there is none

}  // namespace resumecheck
