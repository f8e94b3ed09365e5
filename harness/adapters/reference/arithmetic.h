// Who computes a step of the reference: the host build of the kernels for one instruction set, a
// CUDA device, the slow twin, or the build that was contracted on purpose. They must all give the
// same bits (the last one must not), so a run takes any of them and neither knows nor cares which.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/adamw8bit.h"

namespace resumecheck {

class Arithmetic {
 public:
  virtual ~Arithmetic() = default;
  virtual std::string name() const = 0;  // "avx2", "cuda", "slow twin"
  virtual std::vector<kernels::CutBlock> update(const kernels::QuantisedRun& run,
                                                const kernels::StepScalars& scalars,
                                                kernels::Profile profile) const = 0;
  virtual void finish(const kernels::QuantisedRun& run, const kernels::CutBlock& cut) const = 0;
  virtual void update(const kernels::PlainRun& run, const kernels::StepScalars& scalars,
                      kernels::Profile profile) const = 0;
};

std::shared_ptr<const Arithmetic> host_arithmetic(kernels::Isa isa);
std::shared_ptr<const Arithmetic> host_arithmetic();  // the best instruction set of this machine

}  // namespace resumecheck
