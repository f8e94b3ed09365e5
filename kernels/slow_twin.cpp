// Every line is one formula; nothing here may be made faster. The one rounding that is easy to get
// wrong, fused multiply-add, is the C library's in the step and exact arithmetic in the codebooks.
#include "kernels/slow_twin.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace resumecheck::slow_twin {
namespace {

const float quiet_nan = std::numeric_limits<float>::quiet_NaN();  // 0x7fc00000

float cleaned(float x) { return std::isnan(x) ? quiet_nan : x; }

// In 64-bit significands step * i and its sum with 0.1 or 1 are exact, so this rounds once.
float point(int i, int points) {
  const float step = (1.0F - 0.1F) / static_cast<float>(points - 1);
  const long double exact = i < points / 2
                                ? static_cast<long double>(step) * i + 0.1F
                                : 1.0L - static_cast<long double>(step) * (points - 1 - i);
  return static_cast<float>(exact);
}

float lerp(float from, float to, float weight) {
  const float difference = to - from;
  if (std::fabs(weight) < 0.5F) return std::fma(weight, difference, from);
  const float remaining = weight - 1.0F;
  return std::fma(remaining, difference, to);
}

struct Scalars {
  float lr, lr_times_decay, weight1, weight2, correction1, root_of_correction2, eps;
};

Scalars scalars_at(const Settings& settings, std::int64_t t) {
  Scalars s{};
  s.lr = static_cast<float>(settings.lr);
  s.eps = static_cast<float>(settings.eps);
  s.weight1 = static_cast<float>(1.0 - settings.beta1);
  s.weight2 = static_cast<float>(1.0 - settings.beta2);
  if (settings.rule == Rule::canonical) {
    s.lr_times_decay = static_cast<float>(settings.lr * settings.weight_decay);
    double power1 = settings.beta1, power2 = settings.beta2;
    for (std::int64_t k = 1; k < t; ++k) {
      power1 = power1 * settings.beta1;
      power2 = power2 * settings.beta2;
    }
    s.correction1 = static_cast<float>(1.0 - power1);
    s.root_of_correction2 = std::sqrt(static_cast<float>(1.0 - power2));
  } else {
    const float decay = static_cast<float>(settings.weight_decay);
    s.lr_times_decay = s.lr * decay;
    const auto steps = static_cast<float>(t);
    s.correction1 = 1.0F - powf(static_cast<float>(settings.beta1), steps);
    const float correction2 = 1.0F - powf(static_cast<float>(settings.beta2), steps);
    s.root_of_correction2 = std::sqrt(correction2);
  }
  return s;
}

// One element: the moments are replaced, the parameter's new value is returned unrounded to bf16.
float step_element(float p, float g, float& m, float& v, const Scalars& s) {
  const float shrinkage = s.lr_times_decay * p;
  p = p - shrinkage;
  m = lerp(m, g, s.weight1);
  const float square = g * g;
  v = lerp(v, square, s.weight2);
  const float root = std::sqrt(v);
  const float ratio = root / s.root_of_correction2;
  const float denominator = ratio + s.eps;
  const float m_hat = m / s.correction1;
  const float scaled = s.lr * m_hat;
  const float change = scaled / denominator;
  p = p - change;
  m = cleaned(m);
  v = cleaned(v);
  return cleaned(p);
}

// NaN before infinity before anything else, whichever sign.
float largest_magnitude(const std::vector<float>& values, std::size_t begin, std::size_t end) {
  float largest = 0.0F;
  for (std::size_t i = begin; i < end; ++i) {
    if (std::isnan(values[i])) return quiet_nan;
    largest = std::max(largest, std::fabs(values[i]));
  }
  return largest;
}

}  // namespace

std::vector<float> codebook(bool has_negatives) {
  std::vector<float> entries = {0.0F, 1.0F};
  for (int decade = 0; decade < 7; ++decade) {
    const auto factor = static_cast<float>(std::pow(10.0, decade - 6));
    const int n = has_negatives ? 1 << decade : 2 << decade;
    for (int j = 0; j < n; ++j) {
      const float sum = point(j, n + 1) + point(j + 1, n + 1);
      const float mean = sum / 2.0F;
      const float value = factor * mean;
      entries.push_back(value);
      if (has_negatives) entries.push_back(-value);
    }
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

// Drops the low half by hand: more than half a unit goes away from zero, exactly half to even.
float nearest_bf16(float value) {
  if (std::isnan(value)) return quiet_nan;
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  const std::uint32_t dropped = bits % 65536;
  std::uint32_t kept = bits / 65536;
  const bool odd = kept % 2 == 1;
  if (dropped > 32768 || (dropped == 32768 && odd)) kept = kept + 1;
  bits = kept * 65536;
  std::memcpy(&value, &bits, 4);
  return value;
}

std::uint8_t code_of(float quotient, const std::vector<float>& entries) {
  int below = 0;
  for (int c = 0; c < 256; ++c)
    if (entries[static_cast<std::size_t>(c)] <= quotient) below = c;
  const int up = std::min(below + 1, 255);
  const float low = entries[static_cast<std::size_t>(below)];
  const float high = entries[static_cast<std::size_t>(up)];
  const float over = quotient - low;
  const float gap = high - low;
  const float half = gap * 0.5F;
  return static_cast<std::uint8_t>(over >= half ? up : below);
}

Moment quantise(const std::vector<float>& values, std::int64_t block,
                const std::vector<float>& entries) {
  Moment moment;
  const auto width = static_cast<std::size_t>(block);
  for (std::size_t begin = 0; begin < values.size(); begin += width) {
    const std::size_t end = std::min(begin + width, values.size());
    float scale = largest_magnitude(values, begin, end);
    if (scale < 1e-12F) scale = 1e-12F;
    moment.scales.push_back(scale);
    for (std::size_t i = begin; i < end; ++i)
      moment.codes.push_back(code_of(values[i] / scale, entries));
  }
  return moment;
}

std::vector<float> dequantise(const Moment& moment, std::int64_t block,
                              const std::vector<float>& entries) {
  std::vector<float> values;
  for (std::size_t i = 0; i < moment.codes.size(); ++i) {
    const float scale = moment.scales[i / static_cast<std::size_t>(block)];
    values.push_back(cleaned(entries[moment.codes[i]] * scale));
  }
  return values;
}

void step(Parameter& parameter, const std::vector<float>& gradient, const Settings& settings,
          std::int64_t t) {
  const Scalars scalars = scalars_at(settings, t);
  std::vector<float> m = dequantise(parameter.first, parameter.block, parameter.first_codebook);
  std::vector<float> v = dequantise(parameter.second, parameter.block, parameter.second_codebook);
  for (std::size_t i = 0; i < parameter.values.size(); ++i) {
    const float p = step_element(parameter.values[i], gradient[i], m[i], v[i], scalars);
    parameter.values[i] = parameter.is_bf16 ? nearest_bf16(p) : p;
  }
  parameter.first = quantise(m, parameter.block, parameter.first_codebook);
  parameter.second = quantise(v, parameter.block, parameter.second_codebook);
}

void step(PlainParameter& parameter, const std::vector<float>& gradient, const Settings& settings,
          std::int64_t t) {
  const Scalars scalars = scalars_at(settings, t);
  for (std::size_t i = 0; i < parameter.values.size(); ++i) {
    float m = parameter.first[i], v = parameter.second[i];
    const float p = step_element(parameter.values[i], gradient[i], m, v, scalars);
    parameter.values[i] = parameter.is_bf16 ? nearest_bf16(p) : p;
    parameter.first[i] = parameter.moments_are_bf16 ? nearest_bf16(m) : m;
    parameter.second[i] = parameter.moments_are_bf16 ? nearest_bf16(v) : v;
  }
}

}  // namespace resumecheck::slow_twin
