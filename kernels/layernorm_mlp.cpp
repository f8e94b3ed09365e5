// The order of a block's kernels, and which operand is scaled by what. An FP8 operand is quantised
// with the scale of its column, which is older than the operand; its amax, for the next scale, is
// taken of what has not been quantised.
#include "kernels/layernorm_mlp.h"

#include <algorithm>

#include "kernels/float_bits.h"

namespace resumecheck::kernels {
namespace {

std::size_t sized(std::int64_t count) { return static_cast<std::size_t>(count); }

// One direction of a block's FP8 state, or none.
struct Columns {
  bool fp8 = false;
  Fp8Format format = Fp8Format::e4m3;
  const float* scale = nullptr;
  const float* scale_inv = nullptr;
  std::uint32_t* amax = nullptr;
};

Columns forward_of(const BlockScaling* scaling) {
  if (scaling == nullptr) return {};
  return {true, scaling->forward, scaling->scale_forward, scaling->scale_inv_forward,
          scaling->amax_forward};
}

Columns backward_of(const BlockScaling* scaling) {
  if (scaling == nullptr) return {};
  return {true, scaling->backward, scaling->scale_backward, scaling->scale_inv_backward,
          scaling->amax_backward};
}

float scale_inv_of(const Columns& columns, int column) {
  return columns.fp8 ? columns.scale_inv[column] : 1.0F;
}

// What a GEMM multiplies in place of values [count]; raises the column's amax.
std::vector<float> operand(const ModelKernels& kernels, const Columns& columns, int column,
                           const float* values, std::int64_t count) {
  std::vector<float> result(values, values + count);
  if (!columns.fp8) return result;
  columns.amax[column] = std::max(columns.amax[column], kernels.amax(values, count));
  std::vector<std::uint8_t> codes(sized(count));
  kernels.quantise(values, count, columns.scale[column], columns.format, codes.data());
  kernels.dequantise(codes.data(), count, columns.format, result.data());
  return result;
}

using Gather = std::function<void(std::vector<float>&)>;

// gather: of the chunks that other ranks hold, or unset.
std::vector<float> whole_sums(const ModelKernels& kernels, const ChunkedProduct& product,
                              const Gather& gather = {}) {
  const std::int64_t count = product.rows * product.columns;
  std::vector<float> chunk_sums(sized(count * product.range.count())), sums(sized(count));
  if (count > 0) kernels.product_chunk_sums(product, chunk_sums.data());
  if (gather) gather(chunk_sums);
  if (count > 0) kernels.add_chunk_sums(chunk_sums.data(), count, sums.data());
  return sums;
}

void drop_out(const float* factors, std::vector<float>& values) {
  if (factors == nullptr) return;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float product = values[i] * factors[i];
    values[i] = is_nan_bits(bits_of(product)) ? float_of(0x7fc00000U) : product;
  }
}

LinearEpilogue epilogue_of(const ChunkedProduct& product, bool scaled, float scale_inv1,
                           float scale_inv2) {
  LinearEpilogue epilogue;
  epilogue.rows = product.rows;
  epilogue.columns = product.columns;
  epilogue.scaled = scaled;
  epilogue.scale_inv1 = scale_inv1;
  epilogue.scale_inv2 = scale_inv2;
  return epilogue;
}

// dX of a linear layer: of the operands of dy [rows][outputs] and of its weight [outputs][inputs].
std::vector<float> input_gradient(const ModelKernels& kernels, const ChunkedProduct& product,
                                  bool scaled, float scale_inv_dy, float scale_inv_weight,
                                  const Gather& gather = {}) {
  const std::vector<float> sums = whole_sums(kernels, product, gather);
  std::vector<float> dx(sums.size());
  kernels.finish_linear(epilogue_of(product, scaled, scale_inv_dy, scale_inv_weight), sums.data(),
                        dx.data());
  return dx;
}

// Of each sample the products that it adds to a weight's gradient, not scaled yet.
std::vector<float> weight_contributions(const ModelKernels& kernels, const float* dy,
                                        const float* x, std::int64_t rows, std::int64_t outputs,
                                        std::int64_t inputs) {
  std::vector<float> contributions(sized(rows * outputs * inputs));
  const ChunkRange samples = {0, static_cast<int>(rows)};
  kernels.product_chunk_sums(weight_gradient_product(dy, x, sum_chunks, outputs, inputs, samples),
                             contributions.data());
  return contributions;
}

}  // namespace

BlockActivations forward_block(const ModelKernels& kernels, const BlockShape& shape,
                               const BlockParameters& parameters, const BlockScaling* scaling,
                               const float* x, std::int64_t rows, float* y, const BlockPass& pass) {
  const std::int64_t width = shape.width, held = shape.held_hidden();
  const Columns columns = forward_of(scaling);
  BlockActivations kept;
  kept.rows = rows;
  kept.normalised.resize(sized(rows * width));
  kept.rstd.resize(sized(rows));
  std::vector<float> h(sized(rows * width));
  kernels.layernorm(x, parameters.norm_weight, parameters.norm_bias, rows, width, h.data(),
                    kept.normalised.data(), kept.rstd.data());

  kept.fc1_operand = operand(kernels, columns, fc1_input, h.data(), rows * width);
  kept.fc1_weight = operand(kernels, columns, fc1_weight, parameters.fc1_weight, held * width);
  const ChunkedProduct fc1 =
      forward_product(kept.fc1_operand.data(), kept.fc1_weight.data(), rows, held, width);
  LinearEpilogue epilogue = epilogue_of(fc1, columns.fp8, scale_inv_of(columns, fc1_input),
                                        scale_inv_of(columns, fc1_weight));
  epilogue.bias = parameters.fc1_bias;
  kept.a.resize(sized(rows * held));
  kernels.finish_linear(epilogue, whole_sums(kernels, fc1).data(), kept.a.data());

  std::vector<float> r(sized(rows * held));
  kernels.squared_relu(kept.a.data(), rows * held, r.data());
  drop_out(pass.dropout, r);
  kept.fc2_operand = operand(kernels, columns, fc2_input, r.data(), rows * held);
  kept.fc2_weight = operand(kernels, columns, fc2_weight, parameters.fc2_weight, width * held);
  const ChunkedProduct fc2 = forward_product(kept.fc2_operand.data(), kept.fc2_weight.data(), rows,
                                             width, shape.hidden, shape.held);
  epilogue = epilogue_of(fc2, columns.fp8, scale_inv_of(columns, fc2_input),
                         scale_inv_of(columns, fc2_weight));
  epilogue.bias = parameters.fc2_bias;
  epilogue.residual = x;
  kernels.finish_linear(epilogue, whole_sums(kernels, fc2, pass.gather).data(), y);
  return kept;
}

BlockContributions backward_block(const ModelKernels& kernels, const BlockShape& shape,
                                  const BlockParameters& parameters, const BlockScaling* scaling,
                                  const BlockActivations& activations, const float* dy, float* dx,
                                  const BlockPass& pass) {
  const std::int64_t width = shape.width, held = shape.held_hidden(), rows = activations.rows;
  const Columns forward = forward_of(scaling), backward = backward_of(scaling);
  BlockContributions contributions;

  const std::vector<float> dy_operand =
      operand(kernels, backward, fc2_output_gradient, dy, rows * width);
  contributions.fc2_bias.assign(dy, dy + rows * width);
  contributions.fc2_weight = weight_contributions(
      kernels, dy_operand.data(), activations.fc2_operand.data(), rows, width, held);
  std::vector<float> dr = input_gradient(
      kernels,
      input_gradient_product(dy_operand.data(), activations.fc2_weight.data(), rows, width, held),
      backward.fp8, scale_inv_of(backward, fc2_output_gradient), scale_inv_of(forward, fc2_weight));

  drop_out(pass.dropout, dr);
  std::vector<float> da(sized(rows * held));
  kernels.squared_relu_backward(activations.a.data(), dr.data(), rows * held, da.data());
  const std::vector<float> da_operand =
      operand(kernels, backward, fc1_output_gradient, da.data(), rows * held);
  contributions.fc1_bias = da;
  contributions.fc1_weight = weight_contributions(
      kernels, da_operand.data(), activations.fc1_operand.data(), rows, held, width);
  const std::vector<float> dh =
      input_gradient(kernels,
                     input_gradient_product(da_operand.data(), activations.fc1_weight.data(), rows,
                                            shape.hidden, width, shape.held),
                     backward.fp8, scale_inv_of(backward, fc1_output_gradient),
                     scale_inv_of(forward, fc1_weight), pass.gather);

  contributions.norm_bias = dh;
  contributions.norm_weight.resize(sized(rows * width));
  kernels.layernorm_backward(dh.data(), activations.normalised.data(), activations.rstd.data(),
                             parameters.norm_weight, dy, rows, width, dx,
                             contributions.norm_weight.data());
  return contributions;
}

void add_samples(const ModelKernels& kernels, const float* contributions, std::int64_t count,
                 float* gradient) {
  kernels.add_chunk_sums(contributions, count, gradient);
}

void add_weight_samples(const ModelKernels& kernels, const BlockShape& shape,
                        const BlockScaling* scaling, bool second, const float* contributions,
                        float* gradient) {
  const std::int64_t count = shape.width * shape.hidden;
  const Columns forward = forward_of(scaling), backward = backward_of(scaling);
  std::vector<float> sums(sized(count));
  kernels.add_chunk_sums(contributions, count, sums.data());
  LinearEpilogue epilogue;
  epilogue.rows = 1;
  epilogue.columns = count;
  epilogue.scaled = scaling != nullptr;
  epilogue.scale_inv1 = scale_inv_of(backward, second ? fc2_output_gradient : fc1_output_gradient);
  epilogue.scale_inv2 = scale_inv_of(forward, second ? fc2_input : fc1_input);
  kernels.finish_linear(epilogue, sums.data(), gradient);
}

}  // namespace resumecheck::kernels
