#include "harness/adapters/reference/arithmetic.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "kernels/float_bits.h"
#include "kernels/slow_twin.h"

namespace resumecheck {
namespace {

class HostArithmetic final : public Arithmetic {
 public:
  explicit HostArithmetic(kernels::Isa isa) : isa_(isa), model_(kernels::host_model_kernels(isa)) {}
  std::string name() const override { return kernels::name_of(isa_); }
  std::vector<kernels::CutBlock> update(const kernels::QuantisedRun& run,
                                        const OptimizerStep& step) const override {
    return kernels::update_quantised(run, step_scalars(step.settings, step.number),
                                     step.settings.profile, isa_);
  }
  void finish(const kernels::QuantisedRun& run, const kernels::CutBlock& cut) const override {
    kernels::finish_cut_block(run, cut, isa_);
  }
  void update(const kernels::PlainRun& run, const OptimizerStep& step) const override {
    kernels::update_plain(run, step_scalars(step.settings, step.number), step.settings.profile,
                          isa_);
  }
  const kernels::ModelKernels* model() const override { return &model_; }

 private:
  kernels::Isa isa_;
  kernels::ModelKernels model_;
};

std::vector<float> widened(const void* values, std::int64_t count, kernels::ParamType type) {
  std::vector<float> floats(static_cast<std::size_t>(count));
  if (type == kernels::ParamType::fp32) {
    std::memcpy(floats.data(), values, floats.size() * sizeof(float));
    return floats;
  }
  std::vector<std::uint16_t> halves(floats.size());
  std::memcpy(halves.data(), values, halves.size() * sizeof(std::uint16_t));
  std::transform(halves.begin(), halves.end(), floats.begin(), kernels::widen_bf16);
  return floats;
}

// The twin has rounded already: what is cut off here is zero.
void narrow(const std::vector<float>& floats, void* values, kernels::ParamType type) {
  if (type == kernels::ParamType::fp32) {
    std::memcpy(values, floats.data(), floats.size() * sizeof(float));
    return;
  }
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const auto half = static_cast<std::uint16_t>(kernels::bits_of(floats[i]) >> 16);
    std::memcpy(static_cast<std::byte*>(values) + 2 * i, &half, sizeof half);
  }
}

slow_twin::Settings twin_settings(const kernels::AdamWSettings& given) {
  const auto rule_of = [](kernels::Profile profile) {
    switch (profile) {
      case kernels::Profile::canonical:
        return slow_twin::Rule::canonical;
      case kernels::Profile::torchao_eager:
        return slow_twin::Rule::torchao_eager;
      case kernels::Profile::torchao_compiled:
        return slow_twin::Rule::torchao_compiled;
    }
    throw std::logic_error("the slow twin knows no such profile");
  };
  return {given.lr,  given.beta1,        given.beta2,
          given.eps, given.weight_decay, rule_of(given.profile)};
}

// The codebook that the run brings, not the standard one; empty for a float of 8 bits.
std::vector<float> codebook_of(const kernels::QuantisedRun& run, const float* codebook) {
  if (run.storage == kernels::Storage::e4m3) return {};
  return {codebook, codebook + (run.storage == kernels::Storage::map4 ? 16 : 256)};
}

// What a step of either kind of run needs beside the moments, and gives back.
template <class Parameter, class Run>
void take_param(Parameter& parameter, const Run& run) {
  parameter.is_bf16 = run.type == kernels::ParamType::bf16;
  parameter.values = widened(run.param, run.count, run.type);
  if (run.rounding != nullptr) parameter.draws.assign(run.rounding, run.rounding + run.count);
  if (run.master != nullptr) parameter.master.assign(run.master, run.master + run.count);
}

template <class Parameter, class Run>
void give_param(const Parameter& parameter, const Run& run) {
  narrow(parameter.values, run.param, run.type);
  if (run.master != nullptr)
    std::copy(parameter.master.begin(), parameter.master.end(), run.master);
}

class TwinArithmetic final : public Arithmetic {
 public:
  std::string name() const override { return "slow twin"; }

  std::vector<kernels::CutBlock> update(const kernels::QuantisedRun& run,
                                        const OptimizerStep& step) const override {
    if (run.first != 0 || run.count != run.whole) {
      throw std::logic_error("the slow twin computes whole parameters only");
    }
    const auto blocks = static_cast<std::size_t>(kernels::blocks_touched(run));
    slow_twin::Parameter parameter;
    take_param(parameter, run);
    parameter.block = run.block;
    parameter.first_codebook = codebook_of(run, run.codebook1);
    parameter.second_codebook = codebook_of(run, run.codebook2);
    parameter.first = {{run.codes1, run.codes1 + run.count}, {run.scale1, run.scale1 + blocks}};
    parameter.second = {{run.codes2, run.codes2 + run.count}, {run.scale2, run.scale2 + blocks}};
    slow_twin::step(parameter, widened(run.grad, run.count, run.type), twin_settings(step.settings),
                    step.number);
    give_param(parameter, run);
    std::copy(parameter.first.codes.begin(), parameter.first.codes.end(), run.codes1);
    std::copy(parameter.second.codes.begin(), parameter.second.codes.end(), run.codes2);
    std::copy(parameter.first.scales.begin(), parameter.first.scales.end(), run.scale1);
    std::copy(parameter.second.scales.begin(), parameter.second.scales.end(), run.scale2);
    return {};
  }

  void finish(const kernels::QuantisedRun&, const kernels::CutBlock&) const override {
    throw std::logic_error("the slow twin has no cut blocks");
  }

  void update(const kernels::PlainRun& run, const OptimizerStep& step) const override {
    slow_twin::PlainParameter parameter;
    take_param(parameter, run);
    parameter.moments_are_bf16 = run.moment_type == kernels::ParamType::bf16;
    parameter.first = widened(run.moment1, run.count, run.moment_type);
    parameter.second = widened(run.moment2, run.count, run.moment_type);
    slow_twin::step(parameter, widened(run.grad, run.count, run.type), twin_settings(step.settings),
                    step.number);
    give_param(parameter, run);
    narrow(parameter.first, run.moment1, run.moment_type);
    narrow(parameter.second, run.moment2, run.moment_type);
  }
};

}  // namespace

std::shared_ptr<const Arithmetic> host_arithmetic(kernels::Isa isa) {
  return std::make_shared<HostArithmetic>(isa);
}

std::shared_ptr<const Arithmetic> host_arithmetic() { return host_arithmetic(kernels::best_isa()); }

std::vector<std::shared_ptr<const Arithmetic>> host_arithmetics() {
  std::vector<std::shared_ptr<const Arithmetic>> all;
  for (const kernels::Isa isa : kernels::available_isas()) all.push_back(host_arithmetic(isa));
  return all;
}

std::shared_ptr<const Arithmetic> twin_arithmetic() { return std::make_shared<TwinArithmetic>(); }

}  // namespace resumecheck
