// Where a chunk begins is worked out once, from the whole length of a sum and never from a rank's
// share of it: 24 chunks of what a rank happens to hold are other chunks, and train just as well.
#include "kernels/model_tasks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace resumecheck::kernels {
namespace {

void require(bool holds, const char* otherwise) {
  if (!holds) throw std::invalid_argument(std::string("kernels: ") + otherwise);
}

void check_pointer(const void* pointer, std::int64_t elements) {
  require(pointer != nullptr || elements == 0, "what is not empty needs all its pointers");
}

void check_count(std::int64_t count) {
  require(count >= 0, "a number of elements cannot be negative");
}

// A row is one team's, and counted in an int.
void check_rows(std::int64_t rows, std::int64_t width) {
  require(rows >= 0 && width > 0 && width <= std::numeric_limits<int>::max() / 2,
          "a row must have at least one element and fit an int");
}

template <class... Pointers>
void check_pointers(std::int64_t elements, const Pointers*... pointers) {
  (check_pointer(pointers, elements), ...);
}

std::int64_t stored_inner(const ProductTask& task) {
  const std::int64_t from = chunk_begin(task.inner, task.first_chunk);
  return chunk_begin(task.inner, task.first_chunk + task.chunks) - from;
}

std::int64_t extent(std::int64_t outer, std::int64_t outer_stride, std::int64_t inner,
                    std::int64_t inner_stride) {
  return outer == 0 || inner == 0 ? 0 : (outer - 1) * outer_stride + (inner - 1) * inner_stride + 1;
}

}  // namespace

CastTask cast_task(const float* values, std::int64_t count, float scale, Fp8Format format,
                   std::uint8_t* codes) {
  check_count(count);
  check_pointers(count, values, codes);
  return {count, format == Fp8Format::e5m2, scale, values, codes};
}

DecodeTask decode_task(const std::uint8_t* codes, std::int64_t count, Fp8Format format,
                       float* values) {
  check_count(count);
  check_pointers(count, values, codes);
  return {count, format == Fp8Format::e5m2, codes, values};
}

AmaxTask amax_task(const float* values, std::int64_t count,
                   std::vector<std::uint32_t>& tile_maxima) {
  check_count(count);
  check_pointers(count, values);
  tile_maxima.assign(static_cast<std::size_t>(amax_tiles(count)), 0);
  return {count, values, tile_maxima.data()};
}

ScalingTask scaling_task(const DelayedScaling& recipe, Fp8Format format, const float* reduced,
                         const ScalingState& state) {
  require(recipe.history >= 1, "an amax history must have at least one row");
  require(recipe.margin >= -100 && recipe.margin <= 100, "a margin must be from -100 to 100");
  check_count(state.columns);
  check_pointers(state.columns, reduced, state.history, state.scale);
  ScalingTask task;
  task.columns = state.columns;
  task.rows = recipe.history;
  task.fused = recipe.fused;
  task.most_recent = recipe.most_recent;
  task.fp8_max = fp8_max(format);
  task.fused_numerator = task.fp8_max * std::ldexp(1.0F, -recipe.margin);
  task.unfused_divisor = std::ldexp(1.0F, recipe.margin);
  task.reduced = reduced;
  task.history = state.history;
  task.scale = state.scale;
  task.scale_inv = state.scale_inv;
  return task;
}

ProductTask product_task(const ChunkedProduct& product, float* chunk_sums) {
  require(product.rows >= 0 && product.columns >= 0 && product.inner >= 0,
          "a product cannot have a negative size");
  require(product.range.first >= 0 && product.range.first <= product.range.last &&
              product.range.last <= sum_chunks,
          "a range of chunks must lie within the 24");
  ProductTask task;
  task.rows = product.rows;
  task.columns = product.columns;
  task.inner = product.inner;
  task.first_chunk = product.range.first;
  task.chunks = product.range.count();
  task.left = product.left;
  task.right = product.right;
  task.left_row = product.left_row;
  task.left_inner = product.left_inner;
  task.right_column = product.right_column;
  task.right_inner = product.right_inner;
  task.sums = chunk_sums;
  check_pointer(product.left, left_extent(task));
  check_pointer(product.right, right_extent(task));
  check_pointer(chunk_sums, task.chunks * task.rows * task.columns);
  return task;
}

std::int64_t left_extent(const ProductTask& task) {
  return extent(task.rows, task.left_row, stored_inner(task), task.left_inner);
}

std::int64_t right_extent(const ProductTask& task) {
  return extent(task.columns, task.right_column, stored_inner(task), task.right_inner);
}

ChunkAdditionTask chunk_addition_task(const float* chunk_sums, std::int64_t count, float* sums) {
  check_count(count);
  check_pointers(count, chunk_sums, sums);
  return {count, chunk_sums, sums};
}

EpilogueTask epilogue_task(const LinearEpilogue& epilogue, const float* sums, float* out) {
  require(epilogue.rows >= 0 && epilogue.columns >= 0, "a product cannot have a negative size");
  check_pointers(epilogue.rows * epilogue.columns, sums, out);
  EpilogueTask task;
  task.rows = epilogue.rows;
  task.columns = epilogue.columns;
  task.scaled = epilogue.scaled;
  task.scale_inv1 = epilogue.scale_inv1;
  task.scale_inv2 = epilogue.scale_inv2;
  task.bias = epilogue.bias;
  task.residual = epilogue.residual;
  task.sums = sums;
  task.out = out;
  return task;
}

LayerNormTask layernorm_task(const float* x, const float* gamma, const float* beta,
                             std::int64_t rows, std::int64_t width, float* h, float* normalised,
                             float* rstd) {
  check_rows(rows, width);
  check_pointers(rows, x, gamma, beta, h, normalised, rstd);
  return {rows, width, x, gamma, beta, h, normalised, rstd};
}

LayerNormBackwardTask layernorm_backward_task(const float* dh, const float* normalised,
                                              const float* rstd, const float* gamma,
                                              const float* dy, std::int64_t rows,
                                              std::int64_t width, float* dx, float* dgamma) {
  check_rows(rows, width);
  check_pointers(rows, dh, normalised, rstd, gamma, dy, dx, dgamma);
  return {rows, width, dh, normalised, rstd, gamma, dy, dx, dgamma};
}

ReluTask relu_task(const float* a, std::int64_t count, float* r) {
  check_count(count);
  check_pointers(count, a, r);
  return {count, a, r};
}

ReluBackwardTask relu_backward_task(const float* a, const float* dr, std::int64_t count,
                                    float* da) {
  check_count(count);
  check_pointers(count, a, dr, da);
  return {count, a, dr, da};
}

LossTask loss_task(const float* y, const float* target, std::int64_t rows, std::int64_t width,
                   float* d, float* loss) {
  check_rows(rows, width);
  check_pointers(rows, y, target, d, loss);
  return {rows, width, y, target, d, loss};
}

namespace {

void set_fp8(ModelKernels& kernels, const ModelUnit& unit) {
  kernels.quantise = [unit](const float* values, std::int64_t count, float scale, Fp8Format format,
                            std::uint8_t* codes) {
    unit.cast(cast_task(values, count, scale, format, codes));
  };
  kernels.dequantise = [unit](const std::uint8_t* codes, std::int64_t count, Fp8Format format,
                              float* values) {
    unit.decode(decode_task(codes, count, format, values));
  };
  kernels.amax = [unit](const float* values, std::int64_t count) {
    std::vector<std::uint32_t> tile_maxima;
    unit.amax(amax_task(values, count, tile_maxima));
    return tile_maxima.empty() ? 0 : *std::max_element(tile_maxima.begin(), tile_maxima.end());
  };
  kernels.update_scaling = [unit](const DelayedScaling& recipe, Fp8Format format,
                                  const float* reduced, const ScalingState& state) {
    unit.update_scaling(scaling_task(recipe, format, reduced, state));
  };
}

void set_linear(ModelKernels& kernels, const ModelUnit& unit) {
  kernels.product_chunk_sums = [unit](const ChunkedProduct& product, float* chunk_sums) {
    unit.product(product_task(product, chunk_sums));
  };
  kernels.add_chunk_sums = [unit](const float* chunk_sums, std::int64_t count, float* sums) {
    unit.add_chunks(chunk_addition_task(chunk_sums, count, sums));
  };
  kernels.finish_linear = [unit](const LinearEpilogue& epilogue, const float* sums, float* out) {
    unit.epilogue(epilogue_task(epilogue, sums, out));
  };
}

void set_rows(ModelKernels& kernels, const ModelUnit& unit) {
  kernels.layernorm = [unit](const float* x, const float* gamma, const float* beta,
                             std::int64_t rows, std::int64_t width, float* h, float* normalised,
                             float* rstd) {
    unit.layernorm(layernorm_task(x, gamma, beta, rows, width, h, normalised, rstd));
  };
  kernels.layernorm_backward = [unit](const float* dh, const float* normalised, const float* rstd,
                                      const float* gamma, const float* dy, std::int64_t rows,
                                      std::int64_t width, float* dx, float* dgamma) {
    unit.layernorm_backward(
        layernorm_backward_task(dh, normalised, rstd, gamma, dy, rows, width, dx, dgamma));
  };
  kernels.squared_error = [unit](const float* y, const float* target, std::int64_t rows,
                                 std::int64_t width, float* d, float* loss) {
    unit.loss(loss_task(y, target, rows, width, d, loss));
  };
}

void set_activation(ModelKernels& kernels, const ModelUnit& unit) {
  kernels.squared_relu = [unit](const float* a, std::int64_t count, float* r) {
    unit.relu(relu_task(a, count, r));
  };
  kernels.squared_relu_backward = [unit](const float* a, const float* dr, std::int64_t count,
                                         float* da) {
    unit.relu_backward(relu_backward_task(a, dr, count, da));
  };
}

}  // namespace

ModelKernels model_kernels_with(const ModelUnit& unit, std::string name) {
  ModelKernels kernels;
  kernels.name = std::move(name);
  set_fp8(kernels, unit);
  set_linear(kernels, unit);
  set_rows(kernels, unit);
  set_activation(kernels, unit);
  return kernels;
}

}  // namespace resumecheck::kernels
