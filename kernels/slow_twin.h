// The same arithmetic a second time, written from its formulas with nothing but loops and ifs: no
// table, no phases, no instruction set, and no code in common with them. Where it and the kernels
// disagree, one of the two has misread the formulas, and no golden can tell which.
#pragma once

#include <cstdint>
#include <vector>

namespace resumecheck::slow_twin {

enum class Rule { canonical, torchao_eager, torchao_compiled };

// What stands for a moment: an entry of 256 or of 16, or a float of 1, 4 and 3 bits.
enum class Kind { entry_of_256, entry_of_16, float8 };

struct Settings {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  Rule rule = Rule::canonical;
};

// 256 or 16 entries, ascending; none for float8.
std::vector<float> codebook(bool has_negatives, Kind kind = Kind::entry_of_256);

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
  // Both empty: the moments' codes are float8.
  std::vector<float> first_codebook = codebook(true), second_codebook = codebook(false);
  // Of bf16 parameters, or empty: what stochastic rounding draws in this step, and the values that
  // are not rounded at all.
  std::vector<std::uint16_t> draws;
  std::vector<float> master;
};
void step(Parameter& parameter, const std::vector<float>& gradient, const Settings& settings,
          std::int64_t t);

struct PlainParameter {
  bool is_bf16 = false, moments_are_bf16 = false;
  std::vector<float> values, first, second;
  std::vector<std::uint16_t> draws;  // as in Parameter
  std::vector<float> master;
};
void step(PlainParameter& parameter, const std::vector<float>& gradient, const Settings& settings,
          std::int64_t t);

// An empty codebook: codes are float8.
Moment quantise(const std::vector<float>& values, std::int64_t block,
                const std::vector<float>& codebook);
std::vector<float> dequantise(const Moment& moment, std::int64_t block,
                              const std::vector<float>& codebook);
std::uint8_t code_of(float quotient, const std::vector<float>& codebook);

double float8_value(std::uint8_t code);  // NaN for 0x7f and 0xff
std::uint8_t float8_code(float value);   // the nearest, ties to even; NaN beyond 464

float nearest_bf16(float value);  // ties to even, NaN to the quiet one
float stochastic_bf16(float value, std::uint16_t draw);

}  // namespace resumecheck::slow_twin
