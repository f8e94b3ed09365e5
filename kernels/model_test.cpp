// How a sum is cut into its 24 chunks, and what a product refuses. Its bits are compared with the
// slow twin's, in every division of the chunks, in isa_test.cpp.
#include "kernels/model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <stdexcept>
#include <vector>

namespace resumecheck::kernels {
namespace {

TEST(Chunks, CoverEverySumWithoutGapOrOverlap) {
  for (const std::int64_t n : {0, 1, 23, 24, 25, 48, 100, 4096}) {
    EXPECT_EQ(chunk_begin(n, 0), 0);
    EXPECT_EQ(chunk_begin(n, sum_chunks), n);
    for (int chunk = 0; chunk < sum_chunks; ++chunk) {
      const std::int64_t size = chunk_begin(n, chunk + 1) - chunk_begin(n, chunk);
      EXPECT_GE(size, n / sum_chunks);
      EXPECT_LE(size, (n + sum_chunks - 1) / sum_chunks);
    }
  }
}

// 1 and 2^-24 add up to 1 each time, but 24 of 2^-24 together are no longer lost: the order of
// addition is seen in the last bit.
TEST(AddChunkSums, AddsFromTheFirstToTheLast) {
  const ModelKernels kernels = host_model_kernels(best_isa());
  const float small = std::ldexp(1.0F, -24);
  std::vector<float> first(sum_chunks, small), last(sum_chunks, small);
  first.front() = 1.0F;
  last.back() = 1.0F;
  float sum_of_first = 0, sum_of_last = 0;
  kernels.add_chunk_sums(first.data(), 1, &sum_of_first);
  kernels.add_chunk_sums(last.data(), 1, &sum_of_last);
  EXPECT_EQ(sum_of_first, 1.0F);
  EXPECT_GT(sum_of_last, 1.0F);
}

TEST(AddChunkSums, StartsFromPlusZero) {
  const std::vector<float> negative_zeros(sum_chunks, -0.0F);
  float sum = 1;
  host_model_kernels(best_isa()).add_chunk_sums(negative_zeros.data(), 1, &sum);
  EXPECT_FALSE(std::signbit(sum));
}

TEST(Products, ReadOperandsAsTheirLayersDo) {
  const ModelKernels kernels = host_model_kernels(best_isa());
  const std::vector<float> two_by_three = {1, 2, 3, 4, 5, 6}, weight = {1, 10, 100, 2, 20, 200};
  const auto sums = [&](const ChunkedProduct& product) {
    const auto count = static_cast<std::size_t>(product.rows * product.columns);
    std::vector<float> chunk_sums(count * sum_chunks), result(count);
    kernels.product_chunk_sums(product, chunk_sums.data());
    kernels.add_chunk_sums(chunk_sums.data(), static_cast<std::int64_t>(count), result.data());
    return result;
  };
  // Two samples of three features, two outputs.
  EXPECT_EQ(sums(forward_product(two_by_three.data(), weight.data(), 2, 2, 3)),
            (std::vector<float>{321, 642, 654, 1308}));
  // Two samples' gradients of two outputs, three inputs.
  const std::vector<float> dy = {1, 2, 3, 4};
  EXPECT_EQ(sums(input_gradient_product(dy.data(), weight.data(), 2, 2, 3)),
            (std::vector<float>{5, 50, 500, 11, 110, 1100}));
  EXPECT_EQ(sums(weight_gradient_product(dy.data(), two_by_three.data(), 2, 2, 3)),
            (std::vector<float>{13, 17, 21, 18, 24, 30}));
}

TEST(Kernels, RefuseWhatMakesNoSense) {
  const ModelKernels kernels = host_model_kernels(Isa::baseline);
  float value = 0;
  ChunkedProduct product = forward_product(&value, &value, 1, 1, 1);
  const auto refused = [&](const std::function<void()>& call) {
    EXPECT_THROW(call(), std::invalid_argument);
  };
  product.range = {3, 25};
  refused([&] { kernels.product_chunk_sums(product, &value); });
  product.range = {3, 2};
  refused([&] { kernels.product_chunk_sums(product, &value); });
  product = forward_product(nullptr, &value, 1, 1, 1);
  std::vector<float> chunk_sums(sum_chunks);
  refused([&] { kernels.product_chunk_sums(product, chunk_sums.data()); });
  refused([&] { kernels.add_chunk_sums(nullptr, 1, &value); });
  refused([&] { kernels.layernorm(&value, &value, &value, 1, 0, &value, &value, &value); });
  refused([&] { kernels.squared_error(&value, &value, -1, 1, &value, &value); });
  refused([&] { kernels.squared_relu(&value, -1, &value); });
}

}  // namespace
}  // namespace resumecheck::kernels
