// The reference's step on a CUDA device. Only programs that may use one link this; the core program
// starts in milliseconds because it does not.
#pragma once

#include "harness/adapters/reference/arithmetic.h"

namespace resumecheck {

int usable_devices();  // 0 where there is none, no driver, or no device code in this program
std::string usable_device_name();

std::vector<std::string> device_bus_ids();  // of those that this process sees, in their order

// On that of them, for the thread that calls. Error(harness) where there is none.
std::shared_ptr<const Arithmetic> device_arithmetic(int device);

}  // namespace resumecheck
