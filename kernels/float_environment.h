// A library that was loaded into the process can switch the processor to flushing denormals to
// zero, or to another rounding, for everyone; bits then change without any error. Programs check
// before they compute anything that counts.
#pragma once

namespace resumecheck::kernels {

// Throws std::runtime_error that names what is wrong in the calling thread.
void check_float_environment();

}  // namespace resumecheck::kernels
