#include "harness/adapters/reference/arithmetic.h"

namespace resumecheck {
namespace {

class HostArithmetic final : public Arithmetic {
 public:
  explicit HostArithmetic(kernels::Isa isa) : isa_(isa) {}
  std::string name() const override { return kernels::name_of(isa_); }
  std::vector<kernels::CutBlock> update(const kernels::QuantisedRun& run,
                                        const kernels::StepScalars& scalars,
                                        kernels::Profile profile) const override {
    return kernels::adamw8bit_update(run, scalars, profile, isa_);
  }
  void finish(const kernels::QuantisedRun& run, const kernels::CutBlock& cut) const override {
    kernels::adamw8bit_finish(run, cut, isa_);
  }
  void update(const kernels::PlainRun& run, const kernels::StepScalars& scalars,
              kernels::Profile profile) const override {
    kernels::adamw_update(run, scalars, profile, isa_);
  }

 private:
  kernels::Isa isa_;
};

}  // namespace

std::shared_ptr<const Arithmetic> host_arithmetic(kernels::Isa isa) {
  return std::make_shared<HostArithmetic>(isa);
}

std::shared_ptr<const Arithmetic> host_arithmetic() { return host_arithmetic(kernels::best_isa()); }

}  // namespace resumecheck
