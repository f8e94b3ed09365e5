// Who computes a step of the reference: the host build of the kernels for one instruction set, a
// CUDA device, or the slow twin. They must all give the same bits, so a run takes any of them and
// neither knows nor cares which.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/adamw.h"
#include "kernels/model.h"

namespace resumecheck {

struct OptimizerStep {
  kernels::AdamWSettings settings;
  std::int64_t number = 1;  // 1-based, as the optimizer counts
};

class Arithmetic {
 public:
  virtual ~Arithmetic() = default;
  virtual std::string name() const = 0;  // "avx2", "cuda", "slow twin"
  virtual std::vector<kernels::CutBlock> update(const kernels::QuantisedRun& run,
                                                const OptimizerStep& step) const = 0;
  virtual void finish(const kernels::QuantisedRun& run, const kernels::CutBlock& cut) const = 0;
  virtual void update(const kernels::PlainRun& run, const OptimizerStep& step) const = 0;

  // The pieces of a model's step and the update of FP8 scales. Nothing: the slow twin, which
  // computes whole steps.
  virtual const kernels::ModelKernels* model() const { return nullptr; }
};

std::shared_ptr<const Arithmetic> host_arithmetic(kernels::Isa isa);
std::shared_ptr<const Arithmetic> host_arithmetic();  // the best instruction set of this machine

// One host_arithmetic for each instruction set that this machine has, baseline first.
std::vector<std::shared_ptr<const Arithmetic>> host_arithmetics();

// The independent implementation. Whole parameters only: a run on one rank.
std::shared_ptr<const Arithmetic> twin_arithmetic();

}  // namespace resumecheck
