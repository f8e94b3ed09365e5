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

// torch's: 1 - beta is an fp32 number before anything is asked of it.
float fused_lerp(float from, float to, double beta) {
  const auto weight = static_cast<float>(1.0 - beta);
  const float difference = to - from;
  if (std::fabs(weight) < 0.5F) return std::fma(weight, difference, from);
  const float remaining = weight - 1.0F;
  return std::fma(remaining, difference, to);
}

// A compiler's, that has folded the constants in double and must not contract.
float unfused_lerp(float from, float to, double beta) {
  const double weight = 1.0 - beta;
  const float difference = to - from;
  if (std::fabs(weight) < 0.5) {
    const float product = static_cast<float>(weight) * difference;
    return from + product;
  }
  const float product = static_cast<float>(weight - 1.0) * difference;
  return to + product;
}

float lerp(float from, float to, double beta, bool fused) {
  return fused ? fused_lerp(from, to, beta) : unfused_lerp(from, to, beta);
}

struct Scalars {
  float lr, lr_times_decay, correction1, root_of_correction2, eps;
  double beta1, beta2;
  bool fused;
};

Scalars scalars_at(const Settings& settings, std::int64_t t) {
  Scalars s{};
  s.lr = static_cast<float>(settings.lr);
  s.eps = static_cast<float>(settings.eps);
  s.fused = settings.rule != Rule::torchao_compiled;
  s.beta1 = settings.beta1;
  s.beta2 = settings.beta2;
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
  m = lerp(m, g, s.beta1, s.fused);
  const float square = g * g;
  v = lerp(v, square, s.beta2, s.fused);
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

std::vector<float> codebook(bool has_negatives, Kind kind) {
  if (kind == Kind::float8) return {};
  std::vector<float> entries = {0.0F, 1.0F};
  if (kind == Kind::entry_of_16 && !has_negatives) {
    entries.clear();
    for (float entry = 0.0625F; entry <= 1.0F; entry += 0.0625F) entries.push_back(entry);
    return entries;
  }
  const int decades = kind == Kind::entry_of_16 ? 3 : 7;
  for (int decade = 0; decade < decades; ++decade) {
    const auto factor = static_cast<float>(std::pow(10.0, decade - decades + 1));
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

// By comparing the 16 bits that go with what was drawn for them.
float stochastic_bf16(float value, std::uint16_t draw) {
  if (std::isnan(value)) return quiet_nan;
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  const std::uint32_t dropped = bits % 65536;
  bits = bits - dropped;
  if (draw < dropped) bits = bits + 65536;
  std::memcpy(&value, &bits, 4);
  return value;
}

double float8_value(std::uint8_t code) {
  const int sign = code / 128, exponent = code / 8 % 16, fraction = code % 8;
  if (exponent == 15 && fraction == 7) return std::numeric_limits<double>::quiet_NaN();
  const double size = exponent == 0 ? fraction / 8.0 * std::pow(2.0, -6)
                                    : (1 + fraction / 8.0) * std::pow(2.0, exponent - 7);
  return sign == 1 ? -size : size;
}

// Among all floats of 8 bits the nearest: 480, which would be the next one after 448, is NaN's.
std::uint8_t float8_code(float value) {
  if (std::isnan(value)) return 0x7f;
  static const std::vector<double> sizes = [] {
    std::vector<double> all(0x7f);
    for (std::size_t code = 0; code < all.size(); ++code)
      all[code] = float8_value(static_cast<std::uint8_t>(code));
    return all;
  }();
  const double size = std::fabs(value);
  int nearest = 0x7f;
  double error = std::fabs(size - 480.0);
  for (int code = 0x7e; code >= 0; --code) {
    const double other = std::fabs(size - sizes[static_cast<std::size_t>(code)]);
    if (other < error || (other == error && code % 2 == 0)) {
      nearest = code;
      error = other;
    }
  }
  if (size >= 480.0) nearest = 0x7f;
  return static_cast<std::uint8_t>(std::signbit(value) ? nearest + 128 : nearest);
}

std::uint8_t code_of(float quotient, const std::vector<float>& entries) {
  if (entries.empty()) return float8_code(quotient);
  const int last = static_cast<int>(entries.size()) - 1;
  int below = 0;
  for (int c = 0; c <= last; ++c)
    if (entries[static_cast<std::size_t>(c)] <= quotient) below = c;
  const int up = std::min(below + 1, last);
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
    if (entries.empty()) scale = scale / 448.0F;
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
    const float entry = entries.empty() ? static_cast<float>(float8_value(moment.codes[i]))
                                        : entries[moment.codes[i]];
    values.push_back(cleaned(entry * scale));
  }
  return values;
}

namespace {

template <class AnyParameter>
float old_value(const AnyParameter& parameter, std::size_t i) {
  return parameter.master.empty() ? parameter.values[i] : parameter.master[i];
}

template <class AnyParameter>
void store(AnyParameter& parameter, std::size_t i, float value) {
  if (!parameter.master.empty()) parameter.master[i] = value;
  if (!parameter.is_bf16)
    parameter.values[i] = value;
  else if (parameter.draws.empty())
    parameter.values[i] = nearest_bf16(value);
  else
    parameter.values[i] = stochastic_bf16(value, parameter.draws[i]);
}

}  // namespace

void step(Parameter& parameter, const std::vector<float>& gradient, const Settings& settings,
          std::int64_t t) {
  const Scalars scalars = scalars_at(settings, t);
  std::vector<float> m = dequantise(parameter.first, parameter.block, parameter.first_codebook);
  std::vector<float> v = dequantise(parameter.second, parameter.block, parameter.second_codebook);
  for (std::size_t i = 0; i < parameter.values.size(); ++i)
    store(parameter, i, step_element(old_value(parameter, i), gradient[i], m[i], v[i], scalars));
  parameter.first = quantise(m, parameter.block, parameter.first_codebook);
  parameter.second = quantise(v, parameter.block, parameter.second_codebook);
}

void step(PlainParameter& parameter, const std::vector<float>& gradient, const Settings& settings,
          std::int64_t t) {
  const Scalars scalars = scalars_at(settings, t);
  for (std::size_t i = 0; i < parameter.values.size(); ++i) {
    float m = parameter.first[i], v = parameter.second[i];
    store(parameter, i, step_element(old_value(parameter, i), gradient[i], m, v, scalars));
    parameter.first[i] = parameter.moments_are_bf16 ? nearest_bf16(m) : m;
    parameter.second[i] = parameter.moments_are_bf16 ? nearest_bf16(v) : v;
  }
}

}  // namespace resumecheck::slow_twin
