// The same arithmetic a second time, written from its formulas with nothing but loops and ifs: no
// table, no phases, no instruction set, and no code in common with them. Where it and the kernels
// disagree, one of the two has misread the formulas, and no golden can tell which.
#pragma once

#include <cstdint>
#include <vector>

namespace resumecheck::slow_twin {

enum class Rule { canonical, torchao_eager };

struct Settings {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  Rule rule = Rule::canonical;
};

std::vector<float> codebook(bool has_negatives);  // 256 entries, ascending

// A whole flattened parameter. Values of bf16 tensors are held as the floats they widen to.
struct Moment {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;  // one a block
};
struct Parameter {
  bool is_bf16 = false;
  std::int64_t block = 256;
  std::vector<float> values;
  Moment first, second;
  std::vector<float> first_codebook = codebook(true), second_codebook = codebook(false);
};
void step(Parameter& parameter, const std::vector<float>& gradient, const Settings& settings,
          std::int64_t t);

struct PlainParameter {
  bool is_bf16 = false, moments_are_bf16 = false;
  std::vector<float> values, first, second;
};
void step(PlainParameter& parameter, const std::vector<float>& gradient, const Settings& settings,
          std::int64_t t);

Moment quantise(const std::vector<float>& values, std::int64_t block,
                const std::vector<float>& codebook);
std::vector<float> dequantise(const Moment& moment, std::int64_t block,
                              const std::vector<float>& codebook);
std::uint8_t code_of(float quotient, const std::vector<float>& codebook);

float nearest_bf16(float value);  // ties to even, NaN to the quiet one

}  // namespace resumecheck::slow_twin
