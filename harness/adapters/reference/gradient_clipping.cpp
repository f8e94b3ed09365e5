#include "harness/adapters/reference/gradient_clipping.h"

#include <cmath>
#include <cstddef>

#include "harness/scenario/model_schema.h"

namespace resumecheck {
namespace {

float sum_of_squares(const std::vector<float>& values) {
  constexpr auto chunks = static_cast<std::size_t>(logical_samples);
  float sum = 0;
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    const std::size_t last = (chunk + 1) * values.size() / chunks;
    float of_chunk = 0;
    for (std::size_t i = chunk * values.size() / chunks; i < last; ++i) {
      const float square = values[i] * values[i];
      of_chunk += square;
    }
    sum += of_chunk;
  }
  return sum;
}

}  // namespace

float norm_of(const std::map<std::string, std::vector<float>>& gradients) {
  float sum = 0;
  for (const auto& [name, values] : gradients) sum += sum_of_squares(values);
  return std::sqrt(sum);
}

float clip_coefficient(double clip_norm, float norm) {
  const double ratio = clip_norm / (static_cast<double>(norm) + 1e-6);
  return static_cast<float>(ratio > 1 ? 1 : ratio);  // NaN stays
}

void multiply(std::vector<float>& gradient, float coefficient) {
  for (float& value : gradient) value *= coefficient;
}

}  // namespace resumecheck
