// The host's builds of the model's pieces, and which operand of a linear layer's three products
// runs along what. A transposed operand of a square layer would still train.
#include "kernels/model.h"

#include "kernels/isa.h"
#include "kernels/model_tasks.h"

namespace resumecheck::kernels {
namespace {

std::int64_t indices_of(std::int64_t inner, ChunkRange range) {
  return chunk_begin(inner, range.last) - chunk_begin(inner, range.first);
}

}  // namespace

ChunkedProduct forward_product(const float* x, const float* weight, std::int64_t rows,
                               std::int64_t outputs, std::int64_t inputs, ChunkRange range) {
  const std::int64_t stored = indices_of(inputs, range);
  return {rows, outputs, inputs, range, x, weight, stored, 1, stored, 1};
}

ChunkedProduct input_gradient_product(const float* dy, const float* weight, std::int64_t rows,
                                      std::int64_t outputs, std::int64_t inputs, ChunkRange range) {
  const std::int64_t stored = indices_of(outputs, range);
  return {rows, inputs, outputs, range, dy, weight, stored, 1, 1, inputs};
}

ChunkedProduct weight_gradient_product(const float* dy, const float* x, std::int64_t samples,
                                       std::int64_t outputs, std::int64_t inputs,
                                       ChunkRange range) {
  return {outputs, inputs, samples, range, dy, x, 1, outputs, 1, inputs};
}

ModelKernels host_model_kernels(Isa isa) {
  return model_kernels_with(unit_of(isa).model, name_of(isa));
}

}  // namespace resumecheck::kernels
