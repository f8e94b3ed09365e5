// Sums are made of lists of their terms, so that the rule about their order is written once, and a
// layer is read from top to bottom as in a textbook.
#include "kernels/slow_model_twin.h"

#include <cmath>
#include <limits>

namespace resumecheck::slow_twin {
namespace {

using Values = std::vector<float>;

constexpr std::size_t samples = 24;

std::size_t sized(std::int64_t count) { return static_cast<std::size_t>(count); }

float cleaned(float value) {
  return std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value;
}

// ---- Floats of 8 bits ---------------------------------------------------------------------------

double meaning(int code, bool is_e5m2) {
  const int fractions = is_e5m2 ? 4 : 8, bias = is_e5m2 ? 15 : 7;
  const int exponent = code / fractions, fraction = code % fractions;
  if (is_e5m2 && exponent == 31)
    return fraction == 0 ? std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  if (!is_e5m2 && code == 0x7f) return std::numeric_limits<double>::quiet_NaN();
  const double share = static_cast<double>(fraction) / fractions;
  return exponent == 0 ? share * std::pow(2.0, 1 - bias)
                       : (1 + share) * std::pow(2.0, exponent - bias);
}

// The meanings of all codes up to the largest finite one, ascending.
std::vector<double> all_meanings(bool is_e5m2) {
  std::vector<double> all;
  for (int code = 0; code <= (is_e5m2 ? 0x7b : 0x7e); ++code) all.push_back(meaning(code, is_e5m2));
  return all;
}

}  // namespace

float float8_meaning(std::uint8_t code, bool is_e5m2) {
  const double size = meaning(code % 128, is_e5m2);
  return cleaned(static_cast<float>(code >= 128 ? -size : size));
}

std::uint8_t saturating_float8(float value, bool is_e5m2) {
  static const std::vector<double> meanings[] = {all_meanings(false), all_meanings(true)};
  if (std::isnan(value)) return is_e5m2 ? 0x7e : 0x7f;
  const std::vector<double>& all = meanings[is_e5m2 ? 1 : 0];
  const double size = std::fabs(value);
  std::size_t code = all.size() - 1;
  while (code > 0) {
    const double up = all[code] - size, down = size - all[code - 1];
    if (up < down || (up == down && code % 2 == 0)) break;
    --code;
  }
  return static_cast<std::uint8_t>(code + (std::signbit(value) ? 128 : 0));
}

// ---- Delayed scaling ----------------------------------------------------------------------------

namespace {

float largest_float() { return std::numeric_limits<float>::max(); }

// Of the rows after the first.
float largest_ignoring_nan(const Values& rows, float last) {
  Values seen(rows.begin() + 1, rows.end());
  seen.push_back(last);
  float largest = 0.0F;
  for (const float value : seen)
    if (!std::isnan(value) && value > largest) largest = value;
  return largest;
}

float largest_unless_nan(const Values& rows) {
  float largest = -std::numeric_limits<float>::infinity();
  for (const float value : rows)
    if (std::isnan(value)) return value;
  for (const float value : rows)
    if (value > largest) largest = value;
  return largest;
}

// Row 1 goes away, `newest` comes to the end, and the first row is empty.
Values rolled(const Values& rows, float newest) {
  Values result = {0.0F};
  for (std::size_t row = 2; row < rows.size(); ++row) result.push_back(rows[row]);
  if (rows.size() > 1) result.push_back(newest);
  return result;
}

float new_scale(const Scaling& scaling, float amax, float old) {
  const float largest_code = scaling.is_e5m2 ? 57344.0F : 448.0F;
  float scale = old;
  if (std::isfinite(amax) && amax > 0.0F) {
    if (scaling.fused) {
      const float numerator = largest_code * std::pow(2.0F, static_cast<float>(-scaling.margin));
      scale = numerator / amax;
    } else {
      const float reciprocal = 1.0F / amax;
      const float unmargined = reciprocal * largest_code;
      scale = unmargined / std::pow(2.0F, static_cast<float>(scaling.margin));
    }
  }
  return std::isinf(scale) ? largest_float() : scale;
}

}  // namespace

void update_scaling(Scaling& scaling, const Values& reduced) {
  for (std::size_t column = 0; column < reduced.size(); ++column) {
    Values rows;
    for (const Values& row : scaling.history) rows.push_back(row[column]);
    float amax = 0.0F;
    if (scaling.fused) {
      const float last = reduced[column] == 0.0F ? rows[0] : reduced[column];
      if (last != 0.0F) {
        amax = scaling.most_recent ? last : largest_ignoring_nan(rows, last);
        rows = rolled(rows, last);
      }
    } else {
      rows[0] = reduced[column];
      amax = scaling.most_recent ? rows[0] : largest_unless_nan(rows);
      rows = rolled(rows, rows[0]);
    }
    for (std::size_t row = 0; row < rows.size(); ++row) scaling.history[row][column] = rows[row];
    scaling.scale[column] = new_scale(scaling, amax, scaling.scale[column]);
    if (!scaling.scale_inv.empty())
      scaling.scale_inv[column] = cleaned(1.0F / scaling.scale[column]);
  }
}

// ---- Sums ---------------------------------------------------------------------------------------

float ordered_sum(const Values& terms) {
  const std::size_t n = terms.size();
  float total = 0.0F;
  for (std::size_t part = 0; part < 24; ++part) {
    float sum = 0.0F;
    for (std::size_t i = part * n / 24; i < (part + 1) * n / 24; ++i) sum = sum + terms[i];
    total = total + sum;
  }
  return total;
}

// ---- LayerNorm and the activation, a row and an element at a time
// --------------------------------

NormedRow layernorm(const Values& x, const Values& gamma, const Values& beta) {
  NormedRow result;
  const auto n = static_cast<float>(x.size());
  const float mean = ordered_sum(x) / n;
  Values squares;
  for (const float value : x) {
    const float deviation = value - mean;
    squares.push_back(deviation * deviation);
  }
  const float variance = ordered_sum(squares) / n;
  const float with_eps = variance + std::ldexp(1.0F, -16);
  result.rstd = cleaned(1.0F / std::sqrt(with_eps));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float deviation = x[i] - mean;
    const float xhat = deviation * result.rstd;
    const float scaled = xhat * gamma[i];
    result.xhat.push_back(cleaned(xhat));
    result.h.push_back(cleaned(scaled + beta[i]));
  }
  return result;
}

Values layernorm_backward(const NormedRow& forward, const Values& gamma, const Values& dh) {
  Values g, g_times_xhat, dx;
  for (std::size_t i = 0; i < dh.size(); ++i) {
    g.push_back(dh[i] * gamma[i]);
    g_times_xhat.push_back(g[i] * forward.xhat[i]);
  }
  const auto n = static_cast<float>(dh.size());
  const float c1 = ordered_sum(g) / n, c2 = ordered_sum(g_times_xhat) / n;
  for (std::size_t i = 0; i < dh.size(); ++i) {
    const float centred = g[i] - c1;
    const float along = forward.xhat[i] * c2;
    const float difference = centred - along;
    dx.push_back(cleaned(forward.rstd * difference));
  }
  return dx;
}

namespace {
float rectified(float a) { return a > 0.0F || std::isnan(a) ? a : 0.0F; }
}  // namespace

float squared_relu(float a) {
  const float m = rectified(a);
  return cleaned(m * m);
}

float squared_relu_backward(float a, float dr) {
  const float slope = 2.0F * rectified(a);
  return cleaned(slope * dr);
}

// ---- The model ----------------------------------------------------------------------------------

namespace {

// Row by row.
struct Matrix {
  std::size_t rows = 0, columns = 0;
  Values values;
  Matrix(std::size_t of_rows, std::size_t of_columns, Values given)
      : rows(of_rows), columns(of_columns), values(std::move(given)) {}
  Matrix(std::size_t of_rows, std::size_t of_columns)
      : Matrix(of_rows, of_columns, Values(of_rows * of_columns)) {}
  float& at(std::size_t row, std::size_t column) { return values[row * columns + column]; }
  float at(std::size_t row, std::size_t column) const { return values[row * columns + column]; }
};

Matrix transposed(const Matrix& matrix) {
  Matrix result(matrix.columns, matrix.rows);
  for (std::size_t row = 0; row < matrix.rows; ++row)
    for (std::size_t column = 0; column < matrix.columns; ++column)
      result.at(column, row) = matrix.at(row, column);
  return result;
}

// A matrix as a GEMM reads it. Without FP8 the factor is not there at all.
struct Operand {
  Matrix matrix;
  bool is_fp8;
  float factor;
};

Operand operand_of(const Matrix& matrix, const Values& scales, std::size_t column, bool is_e5m2,
                   Values& amaxes) {
  Operand result = {matrix, !scales.empty(), 1.0F};
  if (scales.empty()) return result;
  for (const float value : matrix.values)
    if (std::fabs(value) > amaxes[column]) amaxes[column] = std::fabs(value);
  for (float& value : result.matrix.values)
    value = float8_meaning(saturating_float8(value * scales[column], is_e5m2), is_e5m2);
  result.factor = 1.0F / scales[column];
  return result;
}

Operand transposed(const Operand& operand) {
  return {transposed(operand.matrix), operand.is_fp8, operand.factor};
}

// left times right, the inner dimension being left's columns and right's rows.
Matrix gemm(const Operand& left, const Operand& right) {
  Matrix result(left.matrix.rows, right.matrix.columns);
  for (std::size_t row = 0; row < result.rows; ++row)
    for (std::size_t column = 0; column < result.columns; ++column) {
      Values products;
      for (std::size_t k = 0; k < left.matrix.columns; ++k)
        products.push_back(left.matrix.at(row, k) * right.matrix.at(k, column));
      float value = ordered_sum(products);
      if (left.is_fp8) {
        value = value * left.factor;
        value = value * right.factor;
      }
      result.at(row, column) = cleaned(value);
    }
  return result;
}

Values column_sums(const Matrix& matrix) {
  Values sums;
  for (std::size_t column = 0; column < matrix.columns; ++column) {
    Values terms;
    for (std::size_t row = 0; row < matrix.rows; ++row) terms.push_back(matrix.at(row, column));
    sums.push_back(cleaned(ordered_sum(terms)));
  }
  return sums;
}

Values row_of(const Matrix& matrix, std::size_t row) {
  const auto begin = matrix.values.begin() + static_cast<std::ptrdiff_t>(row * matrix.columns);
  return {begin, begin + static_cast<std::ptrdiff_t>(matrix.columns)};
}

void set_row(Matrix& matrix, std::size_t row, const Values& values) {
  for (std::size_t i = 0; i < matrix.columns; ++i) matrix.at(row, i) = values[i];
}

// The GEMMs of one expert, on the samples that are its own: the rows of all others are zero, and
// add nothing to a sum. A dense layer has one expert, and all samples are its own.
struct KeptExpert {
  Matrix a;
  Operand h, r, fc1, fc2;
};

// What a layer keeps for its backward.
struct Kept {
  std::vector<NormedRow> norm;
  std::vector<KeptExpert> experts;
  Values dropout;
};

struct Shape {
  std::size_t width, hidden;
};

std::vector<Layer::Expert> experts_of(const Layer& layer) {
  if (!layer.experts.empty()) return layer.experts;
  return {{layer.fc1_weight, layer.fc1_bias, layer.fc2_weight, layer.fc2_bias}};
}

Matrix rows_of_expert(Matrix matrix, std::size_t expert, std::size_t experts) {
  for (std::size_t row = 0; row < matrix.rows; ++row)
    if (row % experts != expert) set_row(matrix, row, Values(matrix.columns));
  return matrix;
}

void add_bias(Matrix& matrix, const Values& bias) {
  for (std::size_t row = 0; row < matrix.rows; ++row)
    for (std::size_t i = 0; i < matrix.columns; ++i)
      matrix.at(row, i) = cleaned(matrix.at(row, i) + bias[i]);
}

void drop_out(Matrix& matrix, const Values& factors) {
  if (factors.empty()) return;
  for (std::size_t i = 0; i < matrix.values.size(); ++i)
    matrix.values[i] = cleaned(matrix.values[i] * factors[i]);
}

Kept forward(const Shape& shape, const Layer& layer, const LayerScales& scales,
             const Values& dropout, Matrix& x, LayerScales& amaxes) {
  const auto operand = [&](const Matrix& matrix, std::size_t column) {
    return operand_of(matrix, scales.forward, column, false, amaxes.forward);
  };
  Kept kept;
  kept.dropout = dropout;
  Matrix normed(x.rows, x.columns);
  for (std::size_t row = 0; row < x.rows; ++row) {
    kept.norm.push_back(layernorm(row_of(x, row), layer.norm_weight, layer.norm_bias));
    set_row(normed, row, kept.norm[row].h);
  }
  const auto experts = experts_of(layer);
  for (std::size_t e = 0; e < experts.size(); ++e) {
    const Operand h = operand(rows_of_expert(normed, e, experts.size()), 0);
    const Operand fc1 = operand(Matrix(shape.hidden, shape.width, experts[e].fc1_weight), 1);
    Matrix a = gemm(h, transposed(fc1));
    add_bias(a, experts[e].fc1_bias);
    Matrix activated = a;
    for (float& value : activated.values) value = squared_relu(value);
    drop_out(activated, dropout);
    const Operand r = operand(rows_of_expert(activated, e, experts.size()), 3);
    const Operand fc2 = operand(Matrix(shape.width, shape.hidden, experts[e].fc2_weight), 4);
    Matrix out = gemm(r, transposed(fc2));
    add_bias(out, experts[e].fc2_bias);
    for (std::size_t row = e; row < x.rows; row += experts.size())
      for (std::size_t i = 0; i < x.columns; ++i)
        x.at(row, i) = cleaned(x.at(row, i) + out.at(row, i));
    kept.experts.push_back({a, h, r, fc1, fc2});
  }
  return kept;
}

// dy becomes dx.
Layer backward(const Kept& kept, const Layer& layer, const LayerScales& scales, bool is_e5m2,
               Matrix& dy, LayerScales& amaxes) {
  const auto operand = [&](const Matrix& matrix, std::size_t column) {
    return operand_of(matrix, scales.backward, column, is_e5m2, amaxes.backward);
  };
  Layer gradient;
  const std::size_t experts = kept.experts.size();
  Matrix dh(dy.rows, dy.columns);
  for (std::size_t e = 0; e < experts; ++e) {
    const KeptExpert& of = kept.experts[e];
    Layer::Expert own;
    const Matrix own_dy = rows_of_expert(dy, e, experts);
    own.fc2_bias = column_sums(own_dy);
    const Operand dy_operand = operand(own_dy, 2);
    own.fc2_weight = gemm(transposed(dy_operand), of.r).values;
    Matrix da = gemm(dy_operand, of.fc2);
    drop_out(da, kept.dropout);
    for (std::size_t i = 0; i < da.values.size(); ++i)
      da.values[i] = squared_relu_backward(of.a.values[i], da.values[i]);
    da = rows_of_expert(da, e, experts);
    own.fc1_bias = column_sums(da);
    const Operand da_operand = operand(da, 0);
    own.fc1_weight = gemm(transposed(da_operand), of.h).values;
    const Matrix own_dh = gemm(da_operand, of.fc1);
    for (std::size_t row = e; row < dh.rows; row += experts) set_row(dh, row, row_of(own_dh, row));
    gradient.experts.push_back(own);
  }
  Matrix products = dh;
  for (std::size_t row = 0; row < dh.rows; ++row) {
    const Values dx = layernorm_backward(kept.norm[row], layer.norm_weight, row_of(dh, row));
    for (std::size_t i = 0; i < dh.columns; ++i) {
      products.at(row, i) = dh.at(row, i) * kept.norm[row].xhat[i];
      dy.at(row, i) = cleaned(dy.at(row, i) + dx[i]);
    }
  }
  gradient.norm_weight = column_sums(products);
  gradient.norm_bias = column_sums(dh);
  if (!layer.experts.empty()) return gradient;
  const Layer::Expert dense = gradient.experts.front();
  gradient.experts.clear();
  gradient.fc1_weight = dense.fc1_weight;
  gradient.fc1_bias = dense.fc1_bias;
  gradient.fc2_weight = dense.fc2_weight;
  gradient.fc2_bias = dense.fc2_bias;
  return gradient;
}

}  // namespace

ModelStep model_step(const Model& model, const Values& x, const Values& target) {
  const Shape shape = {sized(model.width), sized(model.hidden)};
  const bool is_fp8 = !model.scales.empty();
  const LayerScales none;
  ModelStep step;
  if (is_fp8)
    step.amaxes.assign(model.layers.size(), LayerScales{Values(6, 0.0F), Values(4, 0.0F)});
  LayerScales unused;
  const auto scales_of = [&](std::size_t i) -> const LayerScales& {
    return is_fp8 ? model.scales[i] : none;
  };
  const auto amaxes_of = [&](std::size_t i) -> LayerScales& {
    return is_fp8 ? step.amaxes[i] : unused;
  };

  Matrix current(samples, shape.width, x);
  std::vector<Kept> kept;
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    kept.push_back(forward(shape, model.layers[i], scales_of(i),
                           model.dropout.empty() ? Values() : model.dropout[i], current,
                           amaxes_of(i)));
  step.output = current.values;

  Matrix dy(samples, shape.width);
  Values losses;
  for (std::size_t i = 0; i < dy.values.size(); ++i) {
    dy.values[i] = cleaned(step.output[i] - target[i]);
    const float square = dy.values[i] * dy.values[i];
    losses.push_back(square * 0.5F);
  }
  step.loss = cleaned(ordered_sum(losses));

  step.gradients.resize(model.layers.size());
  for (std::size_t i = model.layers.size(); i-- > 0;)
    step.gradients[i] = backward(kept[i], model.layers[i], scales_of(i), !model.gradients_are_e4m3,
                                 dy, amaxes_of(i));
  return step;
}

}  // namespace resumecheck::slow_twin
