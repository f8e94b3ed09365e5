// Whatever divides a sum is tried: a kernel that adds what one rank holds, and then adds ranks, is
// right on one rank and wrong on the next mesh.
#include "kernels/model_twin_comparison.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/layernorm_mlp.h"
#include "kernels/slow_model_twin.h"

namespace resumecheck::kernels {
namespace {

using Values = std::vector<float>;

constexpr std::uint32_t seed_of(int repetition, std::int64_t other) {
  return static_cast<std::uint32_t>(repetition * 1009 + other);
}

std::size_t sized(std::int64_t count) { return static_cast<std::size_t>(count); }

const char* text_of(Fp8Format format) { return format == Fp8Format::e4m3 ? "e4m3" : "e5m2"; }

// ---- FP8 ----------------------------------------------------------------------------------------

constexpr std::int64_t sizes[] = {1, 255, 256, 4097};

Values scales_to_try(Draw& draw) {
  Values scales = {1.0F, 448.0F, 57344.0F, float_from(0x7f7fffffU), float_from(1), 1e-20F};
  for (int i = 0; i < 4; ++i) scales.push_back(std::fabs(draw.value()));
  return scales;
}

Outcome compare_quantise(const ModelKernels& kernels, Fp8Format format, int repetitions) {
  Count count(std::string("quantise_fp8 ") + text_of(format));
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (const std::int64_t size : sizes) {
      Draw draw(seed_of(repetition, size));
      for (const float scale : scales_to_try(draw)) {
        count.begin(std::to_string(size) + " values by " + std::to_string(scale));
        const Values values = draw_values(draw, size, 32, true);
        std::vector<std::uint8_t> want, got(values.size());
        for (const float value : values)
          want.push_back(slow_twin::saturating_float8(value * scale, format == Fp8Format::e5m2));
        kernels.quantise(values.data(), size, scale, format, got.data());
        count.codes("codes", want, got);
      }
    }
  return count.outcome();
}

Outcome compare_dequantise(const ModelKernels& kernels, Fp8Format format, int repetitions) {
  Count count(std::string("dequantise_fp8 ") + text_of(format));
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (const std::int64_t size : sizes) {
      count.begin(std::to_string(size) + " codes");
      Draw draw(seed_of(repetition, size));
      std::vector<std::uint8_t> codes;
      Values want, got(sized(size));
      for (std::int64_t i = 0; i < size; ++i) {
        codes.push_back(static_cast<std::uint8_t>(i < 256 ? i : draw.word()));
        want.push_back(slow_twin::float8_meaning(codes.back(), format == Fp8Format::e5m2));
      }
      kernels.dequantise(codes.data(), size, format, got.data());
      count.floats("values", want, got);
    }
  return count.outcome();
}

std::uint32_t obvious_amax(const Values& values) {
  float amax = 0;
  for (const float value : values)
    if (!std::isnan(value) && std::fabs(value) > amax) amax = std::fabs(value);
  return bits_in(amax);
}

Outcome compare_amax(const ModelKernels& kernels, int repetitions) {
  Count count("amax_bits");
  const auto compare = [&](const std::string& name, const Values& values) {
    count.begin(name);
    count.element("amax", 0, obvious_amax(values),
                  kernels.amax(values.data(), static_cast<std::int64_t>(values.size())));
  };
  compare("nothing", {});
  compare("NaNs alone", Values(100, float_from(0xffc00001U)));
  compare("an infinity among NaNs", {float_from(0x7fc00000U), -INFINITY, 1.0F});
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (const std::int64_t size : {1, 31, 33, 4095, 4096, 10000})
      for (const bool edges : {false, true}) {
        Draw draw(seed_of(repetition, size));
        Values values = draw_values(draw, size, 64, edges);
        compare(std::to_string(size) + " values", values);
        values[draw.below(values.size())] = -3e9F;  // at a place of its own
        compare(std::to_string(size) + " values and a larger one", values);
      }
  return count.outcome();
}

// ---- Delayed scaling ----------------------------------------------------------------------------

// Magnitudes as amaxes are, often 0, now and then something that no amax should be.
float draw_amax(Draw& draw) {
  const std::size_t choice = draw.below(12);
  if (choice < 3) return 0.0F;
  if (choice == 3) return std::fabs(draw.edge());
  if (choice == 4) return draw.edge();
  return std::fabs(draw.value());
}

Values draw_amaxes(Draw& draw, std::int64_t count) {
  Values values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(draw_amax(draw));
  return values;
}

struct ScalingCase {
  std::int64_t rows, columns;
  int margin;
  bool most_recent, keeps_scale_inv;
  Fp8Format format;
};

std::vector<ScalingCase> scaling_cases() {
  std::vector<ScalingCase> cases;
  for (const std::int64_t rows : {1, 2, 3, 16})
    for (const bool most_recent : {false, true})
      for (const int margin : {0, 3, -2, 100})
        cases.push_back({rows,
                         rows == 3     ? 300
                         : margin == 3 ? 4
                                       : 6,
                         margin, most_recent, margin != -2,
                         margin == 3 ? Fp8Format::e5m2 : Fp8Format::e4m3});
  return cases;
}

Values flattened(const std::vector<Values>& rows) {
  Values flat;
  for (const Values& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  return flat;
}

slow_twin::Scaling draw_scaling(Draw& draw, const ScalingCase& c, bool fused) {
  slow_twin::Scaling scaling;
  scaling.fused = fused;
  scaling.most_recent = c.most_recent;
  scaling.is_e5m2 = c.format == Fp8Format::e5m2;
  scaling.margin = c.margin;
  for (std::int64_t row = 0; row < c.rows; ++row)
    scaling.history.push_back(draw_amaxes(draw, c.columns));
  for (std::int64_t i = 0; i < c.columns; ++i)
    scaling.scale.push_back(draw.below(8) == 0 ? draw.edge() : std::fabs(draw.value()));
  if (c.keeps_scale_inv) scaling.scale_inv = draw_amaxes(draw, c.columns);
  return scaling;
}

Outcome compare_scaling(const ModelKernels& kernels, bool fused, int repetitions) {
  Count count(std::string("update_delayed_scaling ") + (fused ? "fused" : "unfused"));
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (const ScalingCase& c : scaling_cases()) {
      Draw draw(seed_of(repetition, c.rows * 31 + c.margin));
      slow_twin::Scaling twin = draw_scaling(draw, c, fused);
      Values history = flattened(twin.history), scale = twin.scale, scale_inv = twin.scale_inv;
      const DelayedScaling recipe = {fused, c.most_recent, c.rows, c.margin};
      const ScalingState state = {c.columns, history.data(), scale.data(),
                                  c.keeps_scale_inv ? scale_inv.data() : nullptr};
      for (int step = 0; step < 5; ++step) {
        count.begin(std::to_string(c.rows) + " rows, margin " + std::to_string(c.margin) +
                    ", step " + std::to_string(step));
        const Values found = draw_amaxes(draw, c.columns), others = draw_amaxes(draw, c.columns);
        std::copy(found.begin(), found.end(), history.begin());
        twin.history[0] = found;
        Values reduced;  // where another rank saw 0 too, the reduced value may be 0 and ours not
        for (std::size_t i = 0; i < found.size(); ++i)
          reduced.push_back(draw.below(4) == 0 ? others[i] : found[i]);
        kernels.update_scaling(recipe, c.format, reduced.data(), state);
        slow_twin::update_scaling(twin, reduced);
        count.floats("amax_history", flattened(twin.history), history);
        count.floats("scale", twin.scale, scale);
        count.floats("scale_inv", twin.scale_inv, scale_inv);
      }
    }
  return count.outcome();
}

// ---- Products -----------------------------------------------------------------------------------

struct ProductSize {
  std::int64_t rows, columns, inner;
};
constexpr ProductSize product_sizes[] = {{24, 48, 24}, {5, 24, 48}, {3, 7, 100},
                                         {2, 2, 23},   {1, 1, 5},   {4, 3, 0}};

// How ranks may share 24 chunks; a range may be empty.
const std::vector<std::vector<int>>& chunk_divisions() {
  static const std::vector<std::vector<int>> divisions = {
      {0, 24}, {0, 12, 24}, {0, 5, 5, 24}, {0, 1, 2, 3, 9, 23, 24}};
  return divisions;
}

Values obvious_product(const ProductSize& size, const Values& left, const Values& right) {
  Values sums;
  for (std::int64_t row = 0; row < size.rows; ++row)
    for (std::int64_t column = 0; column < size.columns; ++column) {
      Values terms;
      for (std::int64_t k = 0; k < size.inner; ++k)
        terms.push_back(left[sized(row * size.inner + k)] * right[sized(column * size.inner + k)]);
      sums.push_back(slow_twin::ordered_sum(terms));
    }
  for (float& sum : sums)
    if (std::isnan(sum)) sum = float_from(0x7fc00000U);
  return sums;
}

// matrix [rows][inner]: its columns [from, to), as [rows][to - from], or transposed.
Values slice(const Values& matrix, std::int64_t rows, std::int64_t inner, std::int64_t from,
             std::int64_t to, bool transposed) {
  Values result(sized(rows * (to - from)));
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t k = from; k < to; ++k)
      result[sized(transposed ? (k - from) * rows + row : row * (to - from) + k - from)] =
          matrix[sized(row * inner + k)];
  return result;
}

enum class Form { forward, input_gradient, weight_gradient };

ChunkedProduct product_of(Form form, const ProductSize& size, const Values& left,
                          const Values& right, ChunkRange range) {
  switch (form) {
    case Form::forward:
      return forward_product(left.data(), right.data(), size.rows, size.columns, size.inner, range);
    case Form::input_gradient:
      return input_gradient_product(left.data(), right.data(), size.rows, size.inner, size.columns,
                                    range);
    case Form::weight_gradient:
      break;
  }
  return weight_gradient_product(left.data(), right.data(), size.inner, size.rows, size.columns,
                                 range);
}

// Each range by itself, from operands that hold no more than it, then all chunk sums in order.
Values divided_product(const ModelKernels& kernels, Form form, const ProductSize& size,
                       const Values& left, const Values& right, const std::vector<int>& division) {
  const std::int64_t count = size.rows * size.columns;
  Values chunk_sums(sized(sum_chunks * count)), sums(sized(count));
  for (std::size_t i = 0; i + 1 < division.size(); ++i) {
    const ChunkRange range = {division[i], division[i + 1]};
    const std::int64_t from = chunk_begin(size.inner, range.first);
    const std::int64_t to = chunk_begin(size.inner, range.last);
    const Values mine = slice(left, size.rows, size.inner, from, to, form == Form::weight_gradient);
    const Values other = slice(right, size.columns, size.inner, from, to, form != Form::forward);
    kernels.product_chunk_sums(product_of(form, size, mine, other, range),
                               chunk_sums.data() + range.first * count);
  }
  kernels.add_chunk_sums(chunk_sums.data(), count, sums.data());
  return sums;
}

Outcome compare_products(const ModelKernels& kernels, int repetitions) {
  Count count("product_chunk_sums");
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (const ProductSize& size : product_sizes)
      for (const bool edges : {false, true}) {
        Draw draw(seed_of(repetition, size.inner));
        // Blocks longer than a row: most rows hold no NaN.
        const Values left = draw_values(draw, size.rows * size.inner, size.inner * 2 + 1, edges);
        const Values right = draw_values(draw, size.columns * size.inner, size.inner + 1, edges);
        const Values want = obvious_product(size, left, right);
        for (const Form form : {Form::forward, Form::input_gradient, Form::weight_gradient})
          for (const std::vector<int>& division : chunk_divisions()) {
            count.begin(std::to_string(size.rows) + " by " + std::to_string(size.columns) +
                        " over " + std::to_string(size.inner) + " in " +
                        std::to_string(division.size() - 1) + " ranges, form " +
                        std::to_string(static_cast<int>(form)));
            count.floats("sums", want, divided_product(kernels, form, size, left, right, division));
          }
      }
  return count.outcome();
}

float cleaned(float value) { return std::isnan(value) ? float_from(0x7fc00000U) : value; }

Values finished(const LinearEpilogue& epilogue, const Values& sums) {
  Values out;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    float value = sums[i];
    if (epilogue.scaled) {
      value = value * epilogue.scale_inv1;
      value = value * epilogue.scale_inv2;
    }
    if (epilogue.bias != nullptr) value = value + epilogue.bias[i % sized(epilogue.columns)];
    if (epilogue.residual != nullptr) value = epilogue.residual[i] + value;
    out.push_back(cleaned(value));
  }
  return out;
}

Outcome compare_epilogues(const ModelKernels& kernels, int repetitions) {
  Count count("finish_linear");
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (const std::int64_t columns : {1, 24, 1000})
      for (int parts = 0; parts < 8; ++parts) {
        count.begin(std::to_string(columns) + " columns, parts " + std::to_string(parts));
        Draw draw(seed_of(repetition, columns + parts));
        const std::int64_t rows = 7;
        const Values sums = draw_values(draw, rows * columns, 32, true);
        const Values bias = draw_values(draw, columns, 32, true);
        const Values residual = draw_values(draw, rows * columns, 32, true);
        LinearEpilogue epilogue;
        epilogue.rows = rows;
        epilogue.columns = columns;
        epilogue.scaled = (parts & 1) != 0;
        epilogue.scale_inv1 = draw.value();
        epilogue.scale_inv2 = draw.value();
        if ((parts & 2) != 0) epilogue.bias = bias.data();
        if ((parts & 4) != 0) epilogue.residual = residual.data();
        Values out(sums.size());
        kernels.finish_linear(epilogue, sums.data(), out.data());
        count.floats("out", finished(epilogue, sums), out);
      }
  return count.outcome();
}

// ---- Rows and elements --------------------------------------------------------------------------

Values row_of(const Values& matrix, std::int64_t row, std::int64_t width) {
  return {matrix.begin() + row * width, matrix.begin() + (row + 1) * width};
}

void append(Values& values, const Values& more) {
  values.insert(values.end(), more.begin(), more.end());
}

void compare_layernorm_of(Count& count, const ModelKernels& kernels, Draw& draw, std::int64_t rows,
                          std::int64_t width, bool edges) {
  const std::int64_t all = rows * width;
  const Values x = draw_values(draw, all, width, edges), dh = draw_values(draw, all, width, edges);
  const Values dy = draw_values(draw, all, width, edges);
  const Values gamma = draw_values(draw, width, width, false);
  const Values beta = draw_values(draw, width, width, false);
  Values h(sized(all)), xhat(h), rstd(sized(rows)), dx(h), dgamma(h);
  kernels.layernorm(x.data(), gamma.data(), beta.data(), rows, width, h.data(), xhat.data(),
                    rstd.data());
  kernels.layernorm_backward(dh.data(), xhat.data(), rstd.data(), gamma.data(), dy.data(), rows,
                             width, dx.data(), dgamma.data());
  Values want_h, want_xhat, want_rstd, want_dx, want_dgamma;
  for (std::int64_t row = 0; row < rows; ++row) {
    const slow_twin::NormedRow normed = slow_twin::layernorm(row_of(x, row, width), gamma, beta);
    append(want_h, normed.h);
    append(want_xhat, normed.xhat);
    want_rstd.push_back(normed.rstd);
    append(want_dx, slow_twin::layernorm_backward(normed, gamma, row_of(dh, row, width)));
  }
  for (std::size_t i = 0; i < want_dx.size(); ++i) {
    want_dx[i] = cleaned(dy[i] + want_dx[i]);
    want_dgamma.push_back(cleaned(dh[i] * want_xhat[i]));
  }
  count.floats("h", want_h, h);
  count.floats("xhat", want_xhat, xhat);
  count.floats("rstd", want_rstd, rstd);
  count.floats("dx", want_dx, dx);
  count.floats("dgamma", want_dgamma, dgamma);
}

Outcome compare_layernorm(const ModelKernels& kernels, int repetitions) {
  Count count("layernorm and its backward");
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (const std::int64_t width : {1, 5, 24, 48, 100, 600})
      for (const bool edges : {false, true}) {
        count.begin("width " + std::to_string(width));
        Draw draw(seed_of(repetition, width));
        compare_layernorm_of(count, kernels, draw, width < 100 ? 24 : 3, width, edges);
      }
  return count.outcome();
}

Outcome compare_activation(const ModelKernels& kernels, int repetitions) {
  Count count("squared_relu and its backward");
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (const std::int64_t size : sizes) {
      count.begin(std::to_string(size) + " values");
      Draw draw(seed_of(repetition, size));
      const Values a = draw_values(draw, size, 32, true), dr = draw_values(draw, size, 32, true);
      Values r(a.size()), da(a.size()), want_r, want_da;
      for (std::size_t i = 0; i < a.size(); ++i) {
        want_r.push_back(slow_twin::squared_relu(a[i]));
        want_da.push_back(slow_twin::squared_relu_backward(a[i], dr[i]));
      }
      kernels.squared_relu(a.data(), size, r.data());
      kernels.squared_relu_backward(a.data(), dr.data(), size, da.data());
      count.floats("r", want_r, r);
      count.floats("da", want_da, da);
    }
  return count.outcome();
}

Outcome compare_loss(const ModelKernels& kernels, int repetitions) {
  Count count("squared_error");
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (const std::int64_t width : {1, 24, 333})
      for (const bool edges : {false, true}) {
        count.begin("width " + std::to_string(width));
        Draw draw(seed_of(repetition, width));
        const std::int64_t all = sum_chunks * width;
        const Values y = draw_values(draw, all, width, edges);
        const Values target = draw_values(draw, all, width, edges);
        Values d(y.size()), losses(sum_chunks), loss(1), want_d, terms;
        for (std::size_t i = 0; i < y.size(); ++i) {
          want_d.push_back(cleaned(y[i] - target[i]));
          const float square = want_d[i] * want_d[i];
          terms.push_back(square * 0.5F);
        }
        kernels.squared_error(y.data(), target.data(), 10, width, d.data(), losses.data());
        kernels.squared_error(y.data() + 10 * width, target.data() + 10 * width, 14, width,
                              d.data() + 10 * width, losses.data() + 10);
        kernels.add_chunk_sums(losses.data(), 1, loss.data());
        count.floats("d", want_d, d);
        count.floats("loss", {cleaned(slow_twin::ordered_sum(terms))}, loss);
      }
  return count.outcome();
}

// ---- Whole steps --------------------------------------------------------------------------------

struct ModelCase {
  const char* name;
  std::int64_t layers, width, hidden;
  bool fp8, e4m3_gradients;
  float data;                       // the magnitude of data and targets
  std::vector<std::int64_t> parts;  // samples are computed [parts[i], parts[i + 1]) at a time
};

std::vector<ModelCase> model_cases(bool fp8) {
  return {{"one part", 2, 24, 48, fp8, false, 1.0F, {0, 24}},
          {"uneven parts", 2, 48, 24, fp8, true, 1.0F, {0, 5, 6, 6, 24}},
          {"a part a sample", 1, 24, 24, fp8, false, 4.0F, {0,  1,  2,  3,  4,  5,  6,  7,  8,
                                                            9,  10, 11, 12, 13, 14, 15, 16, 17,
                                                            18, 19, 20, 21, 22, 23, 24}},
          {"tiny data", 2, 24, 24, fp8, false, 1e-38F, {0, 12, 24}},
          {"data that overflows", 2, 24, 24, fp8, false, 1e18F, {0, 12, 24}}};
}

Values drawn(Draw& draw, std::int64_t count, float magnitude) {
  Values values;
  for (std::int64_t i = 0; i < count; ++i) {
    const float share = static_cast<float>(static_cast<int>(draw.word() >> 20) - 2048) / 2048.0F;
    values.push_back(share * magnitude);
  }
  return values;
}

slow_twin::Layer draw_layer(Draw& draw, const ModelCase& c) {
  slow_twin::Layer layer;
  const Values around_one = drawn(draw, c.width, 0.25F);
  for (const float value : around_one) layer.norm_weight.push_back(1.0F + value);
  layer.norm_bias = drawn(draw, c.width, 0.1F);
  layer.fc1_weight = drawn(draw, c.hidden * c.width, 0.5F);
  layer.fc1_bias = drawn(draw, c.hidden, 0.1F);
  layer.fc2_weight = drawn(draw, c.width * c.hidden, 0.5F);
  layer.fc2_bias = drawn(draw, c.width, 0.1F);
  return layer;
}

constexpr std::int64_t rows_of_history = 3;

// A layer's FP8 state in the kernels' layout.
struct LayerState {
  Values scale_forward = Values(forward_columns, 1.0F), scale_inv_forward = scale_forward,
         scale_backward = Values(backward_columns, 1.0F), scale_inv_backward = scale_backward;
  Values history_forward = Values(rows_of_history * forward_columns),
         history_backward = Values(rows_of_history * backward_columns);
  std::vector<std::uint32_t> amax_forward = std::vector<std::uint32_t>(forward_columns),
                             amax_backward = std::vector<std::uint32_t>(backward_columns);
};

BlockScaling scaling_of(LayerState& state, const ModelCase& c) {
  BlockScaling scaling;
  scaling.backward = c.e4m3_gradients ? Fp8Format::e4m3 : Fp8Format::e5m2;
  scaling.scale_forward = state.scale_forward.data();
  scaling.scale_inv_forward = state.scale_inv_forward.data();
  scaling.scale_backward = state.scale_backward.data();
  scaling.scale_inv_backward = state.scale_inv_backward.data();
  scaling.amax_forward = state.amax_forward.data();
  scaling.amax_backward = state.amax_backward.data();
  return scaling;
}

BlockParameters parameters_of(const slow_twin::Layer& layer) {
  return {layer.norm_weight.data(), layer.norm_bias.data(),  layer.fc1_weight.data(),
          layer.fc1_bias.data(),    layer.fc2_weight.data(), layer.fc2_bias.data()};
}

void append(BlockContributions& all, const BlockContributions& more) {
  append(all.norm_weight, more.norm_weight);
  append(all.norm_bias, more.norm_bias);
  append(all.fc1_weight, more.fc1_weight);
  append(all.fc1_bias, more.fc1_bias);
  append(all.fc2_weight, more.fc2_weight);
  append(all.fc2_bias, more.fc2_bias);
}

Values added(const ModelKernels& kernels, const Values& contributions) {
  Values gradient(contributions.size() / sum_chunks);
  add_samples(kernels, contributions.data(), static_cast<std::int64_t>(gradient.size()),
              gradient.data());
  return gradient;
}

Values added_weight(const ModelKernels& kernels, const BlockShape& shape,
                    const BlockScaling* scaling, bool second, const Values& contributions) {
  Values gradient(contributions.size() / sum_chunks);
  add_weight_samples(kernels, shape, scaling, second, contributions.data(), gradient.data());
  return gradient;
}

// The step as ranks and micro-batches do it: each part by itself, then everything gathered.
class DividedStep {
 public:
  DividedStep(const ModelKernels& kernels, const ModelCase& c, const slow_twin::Model& model,
              std::vector<LayerState>& states)
      : kernels_(kernels), case_(c), shape_{c.width, c.hidden}, layers_(model.layers) {
    for (LayerState& state : states) scaling_.push_back(scaling_of(state, c));
    contributions_.resize(layers_.size());
  }

  slow_twin::ModelStep run(const Values& x, const Values& target) {
    for (std::size_t part = 0; part + 1 < case_.parts.size(); ++part)
      run_part(x, target, case_.parts[part], case_.parts[part + 1]);
    kernels_.add_chunk_sums(losses_.data(), 1, &step_.loss);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const BlockContributions& all = contributions_[i];
      slow_twin::Layer gradient;
      gradient.norm_weight = added(kernels_, all.norm_weight);
      gradient.norm_bias = added(kernels_, all.norm_bias);
      gradient.fc1_weight = added_weight(kernels_, shape_, scaling(i), false, all.fc1_weight);
      gradient.fc1_bias = added(kernels_, all.fc1_bias);
      gradient.fc2_weight = added_weight(kernels_, shape_, scaling(i), true, all.fc2_weight);
      gradient.fc2_bias = added(kernels_, all.fc2_bias);
      step_.gradients.push_back(gradient);
    }
    return step_;
  }

 private:
  const BlockScaling* scaling(std::size_t layer) const {
    return scaling_.empty() ? nullptr : &scaling_[layer];
  }

  void run_part(const Values& x, const Values& target, std::int64_t from, std::int64_t to) {
    const std::int64_t rows = to - from, elements = rows * case_.width;
    const auto begin = from * case_.width;
    Values current(x.begin() + begin, x.begin() + begin + elements), next(current);
    std::vector<BlockActivations> activations;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      activations.push_back(forward_block(kernels_, shape_, parameters_of(layers_[i]), scaling(i),
                                          current.data(), rows, next.data()));
      current = next;
    }
    append(step_.output, current);
    Values losses(sized(rows)), dy(current);
    kernels_.squared_error(current.data(), target.data() + begin, rows, case_.width, dy.data(),
                           losses.data());
    append(losses_, losses);
    for (std::size_t i = layers_.size(); i-- > 0;) {
      append(contributions_[i], backward_block(kernels_, shape_, parameters_of(layers_[i]),
                                               scaling(i), activations[i], dy.data(), next.data()));
      dy = next;
    }
  }

  const ModelKernels& kernels_;
  const ModelCase& case_;
  BlockShape shape_;
  const std::vector<slow_twin::Layer>& layers_;
  std::vector<BlockScaling> scaling_;
  std::vector<BlockContributions> contributions_;
  Values losses_;
  slow_twin::ModelStep step_;
};

void count_layer(Count& count, const slow_twin::Layer& want, const slow_twin::Layer& got) {
  count.floats("norm.weight.grad", want.norm_weight, got.norm_weight);
  count.floats("norm.bias.grad", want.norm_bias, got.norm_bias);
  count.floats("fc1.weight.grad", want.fc1_weight, got.fc1_weight);
  count.floats("fc1.bias.grad", want.fc1_bias, got.fc1_bias);
  count.floats("fc2.weight.grad", want.fc2_weight, got.fc2_weight);
  count.floats("fc2.bias.grad", want.fc2_bias, got.fc2_bias);
}

Values floats_of(const std::vector<std::uint32_t>& bits) {
  Values values;
  for (const std::uint32_t value : bits) values.push_back(float_from(value));
  return values;
}

// What the twin and the kernels keep of a layer between steps.
struct ScalingPair {
  slow_twin::Scaling forward, backward;
  explicit ScalingPair(bool fused, bool e4m3_gradients) {
    forward.fused = backward.fused = fused;
    backward.is_e5m2 = !e4m3_gradients;
    forward.history.assign(rows_of_history, Values(forward_columns));
    forward.scale.assign(forward_columns, 1.0F);
    forward.scale_inv = forward.scale;
    backward.history.assign(rows_of_history, Values(backward_columns));
    backward.scale.assign(backward_columns, 1.0F);
    backward.scale_inv = backward.scale;
  }
};

void update_direction(Count& count, const ModelKernels& kernels, slow_twin::Scaling& twin,
                      const Values& amaxes, Values& history, Values& scale, Values& scale_inv) {
  std::copy(amaxes.begin(), amaxes.end(), history.begin());
  twin.history[0] = amaxes;
  slow_twin::update_scaling(twin, amaxes);
  kernels.update_scaling(
      {twin.fused, false, rows_of_history, 0}, twin.is_e5m2 ? Fp8Format::e5m2 : Fp8Format::e4m3,
      amaxes.data(),
      {static_cast<std::int64_t>(amaxes.size()), history.data(), scale.data(), scale_inv.data()});
  count.floats("amax_history", flattened(twin.history), history);
  count.floats("scale", twin.scale, scale);
}

void compare_model_case(Count& count, const ModelKernels& kernels, const ModelCase& c,
                        std::uint32_t seed) {
  Draw draw(seed);
  slow_twin::Model model;
  model.width = c.width;
  model.hidden = c.hidden;
  model.gradients_are_e4m3 = c.e4m3_gradients;
  for (std::int64_t i = 0; i < c.layers; ++i) model.layers.push_back(draw_layer(draw, c));
  std::vector<LayerState> states(c.fp8 ? sized(c.layers) : 0);
  std::vector<ScalingPair> twins(states.size(), ScalingPair(seed % 2 == 0, c.e4m3_gradients));
  model.scales.resize(states.size());
  for (int step = 1; step <= (c.fp8 ? 3 : 1); ++step) {
    count.begin(std::string(c.name) + ", step " + std::to_string(step));
    const Values x = drawn(draw, sum_chunks * c.width, c.data);
    const Values target = drawn(draw, sum_chunks * c.width, c.data);
    for (std::size_t i = 0; i < states.size(); ++i) {
      model.scales[i] = {twins[i].forward.scale, twins[i].backward.scale};
      std::fill(states[i].amax_forward.begin(), states[i].amax_forward.end(), 0U);
      std::fill(states[i].amax_backward.begin(), states[i].amax_backward.end(), 0U);
    }
    const slow_twin::ModelStep want = slow_twin::model_step(model, x, target);
    const slow_twin::ModelStep got = DividedStep(kernels, c, model, states).run(x, target);
    count.floats("loss", {want.loss}, {got.loss});
    count.floats("output", want.output, got.output);
    for (std::size_t i = 0; i < model.layers.size(); ++i)
      count_layer(count, want.gradients[i], got.gradients[i]);
    for (std::size_t i = 0; i < states.size(); ++i) {
      LayerState& state = states[i];
      count.floats("amax.forward", want.amaxes[i].forward, floats_of(state.amax_forward));
      count.floats("amax.backward", want.amaxes[i].backward, floats_of(state.amax_backward));
      update_direction(count, kernels, twins[i].forward, want.amaxes[i].forward,
                       state.history_forward, state.scale_forward, state.scale_inv_forward);
      update_direction(count, kernels, twins[i].backward, want.amaxes[i].backward,
                       state.history_backward, state.scale_backward, state.scale_inv_backward);
    }
  }
}

Outcome compare_steps(const ModelKernels& kernels, bool fp8, int repetitions) {
  Count count(fp8 ? "layernorm_mlp fp8" : "layernorm_mlp fp32");
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (const ModelCase& c : model_cases(fp8))
      compare_model_case(count, kernels, c, seed_of(repetition, c.width + c.layers));
  return count.outcome();
}

}  // namespace

std::vector<Outcome> compare_model_with_twin(const ModelKernels& kernels, int repetitions) {
  std::vector<Outcome> outcomes;
  for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2}) {
    outcomes.push_back(compare_quantise(kernels, format, repetitions));
    outcomes.push_back(compare_dequantise(kernels, format, repetitions));
  }
  outcomes.push_back(compare_amax(kernels, repetitions));
  for (const bool fused : {true, false})
    outcomes.push_back(compare_scaling(kernels, fused, repetitions));
  outcomes.push_back(compare_products(kernels, repetitions));
  outcomes.push_back(compare_epilogues(kernels, repetitions));
  outcomes.push_back(compare_layernorm(kernels, repetitions));
  outcomes.push_back(compare_activation(kernels, repetitions));
  outcomes.push_back(compare_loss(kernels, repetitions));
  for (const bool fp8 : {false, true}) outcomes.push_back(compare_steps(kernels, fp8, repetitions));
  return outcomes;
}

}  // namespace resumecheck::kernels
