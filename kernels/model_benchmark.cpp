// How long FP8 casts take an element, and a block of the model a multiply-add, on one core and for
// each instruction set. The block adds in the one order that every mesh shares, so it is far from
// what a GEMM reaches; this shows what that costs. Figures are for reading; no test asserts them.
#include <benchmark/benchmark.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/layernorm_mlp.h"
#include "kernels/philox.h"

namespace resumecheck::kernels {
namespace {

constexpr std::int64_t elements = std::int64_t{1} << 22;

void count_of(benchmark::State& timing, const char* what, std::int64_t count) {
  timing.counters[what] =
      benchmark::Counter(static_cast<double>(count), benchmark::Counter::kIsIterationInvariantRate |
                                                         benchmark::Counter::kInvert);
}

std::vector<float> grid_values(std::int64_t count, int exponent) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(grid_value(1, Stream::data, 0, 1, static_cast<std::uint64_t>(i), exponent));
  return values;
}

void quantise(benchmark::State& timing, Fp8Format format, Isa isa) {
  const std::vector<float> values = grid_values(elements, -3);
  std::vector<std::uint8_t> codes(values.size());
  const ModelKernels kernels = host_model_kernels(isa);
  for (auto _ : timing) kernels.quantise(values.data(), elements, 1.5F, format, codes.data());
  count_of(timing, "time_per_element", elements);
}

void dequantise(benchmark::State& timing, Fp8Format format, Isa isa) {
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(elements));
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i * 37);
  std::vector<float> values(codes.size());
  const ModelKernels kernels = host_model_kernels(isa);
  for (auto _ : timing) kernels.dequantise(codes.data(), elements, format, values.data());
  count_of(timing, "time_per_element", elements);
}

void amax(benchmark::State& timing, Isa isa) {
  const std::vector<float> values = grid_values(elements, -3);
  const ModelKernels kernels = host_model_kernels(isa);
  for (auto _ : timing) benchmark::DoNotOptimize(kernels.amax(values.data(), elements));
  count_of(timing, "time_per_element", elements);
}

// Forward and backward of 24 samples through one block.
void block_step(benchmark::State& timing, bool fp8, Isa isa) {
  const BlockShape shape = {240, 480};
  const std::int64_t weights = shape.width * shape.hidden;
  const std::vector<float> x = grid_values(sum_chunks * shape.width, -11);
  const std::vector<float> weight = grid_values(weights, -14), bias(480, 0.0F), ones(240, 1.0F);
  const BlockParameters parameters = {ones.data(), bias.data(),   weight.data(),
                                      bias.data(), weight.data(), bias.data()};
  const std::vector<float> scales(forward_columns, 1.0F);
  std::vector<std::uint32_t> maxima(forward_columns);
  BlockScaling scaling;
  scaling.scale_forward = scaling.scale_inv_forward = scales.data();
  scaling.scale_backward = scaling.scale_inv_backward = scales.data();
  scaling.amax_forward = scaling.amax_backward = maxima.data();
  const ModelKernels kernels = host_model_kernels(isa);
  std::vector<float> y(x.size()), dx(x.size());
  for (auto _ : timing) {
    const BlockScaling* state = fp8 ? &scaling : nullptr;
    const BlockActivations kept =
        forward_block(kernels, shape, parameters, state, x.data(), sum_chunks, y.data());
    benchmark::DoNotOptimize(
        backward_block(kernels, shape, parameters, state, kept, y.data(), dx.data()));
  }
  count_of(timing, "time_per_multiply_add", 3 * 2 * weights * sum_chunks);
}

void register_for(Isa isa) {
  const auto add = [&](const std::string& name, const std::function<void(benchmark::State&)>& run) {
    benchmark::RegisterBenchmark((name + "/" + name_of(isa)).c_str(), run);
  };
  for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2}) {
    const std::string name = format == Fp8Format::e4m3 ? "e4m3" : "e5m2";
    add("quantise_fp8/" + name, [=](benchmark::State& timing) { quantise(timing, format, isa); });
    add("dequantise_fp8/" + name,
        [=](benchmark::State& timing) { dequantise(timing, format, isa); });
  }
  add("amax", [=](benchmark::State& timing) { amax(timing, isa); });
  for (const bool fp8 : {false, true})
    add(std::string("layernorm_mlp/") + (fp8 ? "fp8" : "fp32"),
        [=](benchmark::State& timing) { block_step(timing, fp8, isa); });
}

// adamw_benchmark.cpp has the program's main().
const bool registered = [] {
  for (const Isa isa : available_isas()) register_for(isa);
  return true;
}();

}  // namespace
}  // namespace resumecheck::kernels
