// How long one fused step takes an element on one core, per instruction set, beside a plain copy of
// the same bytes (the floor that memory sets). Figures are for reading; no test asserts them.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "kernels/adamw.h"
#include "kernels/philox.h"

namespace resumecheck::kernels {
namespace {

constexpr std::int64_t elements = std::int64_t{1} << 22;

struct Form {
  const char* name;
  Storage storage;
  std::int64_t block;
  Profile profile;
};
constexpr Form forms[] = {{"adamw8bit", Storage::map8, 256, Profile::canonical},
                          {"adamw8bit_unfused", Storage::map8, 256, Profile::torchao_compiled},
                          {"adamw4bit", Storage::map4, 128, Profile::canonical},
                          {"adamwfp8", Storage::e4m3, 256, Profile::canonical}};

template <class Stored>
struct State {
  explicit State(std::int64_t block)
      : scale1(static_cast<std::size_t>(elements / block)), scale2(scale1) {}
  std::vector<Stored> param = std::vector<Stored>(elements), grad = std::vector<Stored>(elements);
  std::vector<std::uint8_t> codes1 = std::vector<std::uint8_t>(elements),
                            codes2 = std::vector<std::uint8_t>(elements);
  std::vector<float> scale1, scale2;
};

template <class Stored>
Stored stored(float value) {
  if constexpr (sizeof(Stored) == 4) return value;
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<Stored>(bits >> 16);
}

template <class Stored>
State<Stored> random_state(std::int64_t block) {
  State<Stored> state(block);
  for (std::int64_t i = 0; i < elements; ++i) {
    const auto k = static_cast<std::size_t>(i);
    state.param[k] =
        stored<Stored>(grid_value(1, Stream::init, 0, 0, static_cast<std::uint64_t>(i), -14));
    state.grad[k] =
        stored<Stored>(grid_value(1, Stream::gradients, 0, 1, static_cast<std::uint64_t>(i), -12));
  }
  return state;
}

void count_elements(benchmark::State& timing) {
  timing.counters["time_per_element"] = benchmark::Counter(
      static_cast<double>(elements),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

template <class Stored>
void step(benchmark::State& timing, const Form& form, Isa isa) {
  State<Stored> state = random_state<Stored>(form.block);
  QuantisedRun run;
  run.count = run.whole = elements;
  run.block = form.block;
  run.storage = form.storage;
  run.type = sizeof(Stored) == 4 ? ParamType::fp32 : ParamType::bf16;
  run.param = state.param.data();
  run.grad = state.grad.data();
  run.codes1 = state.codes1.data();
  run.codes2 = state.codes2.data();
  run.scale1 = state.scale1.data();
  run.scale2 = state.scale2.data();
  if (form.storage != Storage::e4m3) {
    run.codebook1 = standard_codebook(form.storage, true).data();
    run.codebook2 = standard_codebook(form.storage, false).data();
  }
  AdamWSettings settings;
  settings.profile = form.profile;
  std::int64_t t = 0;
  for (auto _ : timing) update_quantised(run, step_scalars(settings, ++t), settings.profile, isa);
  count_elements(timing);
}

// Reads and writes as the step does: param both ways, grad in, two codes both ways.
void copy(benchmark::State& timing) {
  constexpr std::size_t bytes = elements * (4 + 1 + 1);
  std::vector<char> from(bytes, 1), onto(bytes, 2);
  std::vector<float> grad(elements, 1.0F);
  float sum = 0;
  for (auto _ : timing) {
    std::memcpy(onto.data(), from.data(), bytes);
    for (std::int64_t i = 0; i < elements; i += 16) sum += grad[static_cast<std::size_t>(i)];
    benchmark::DoNotOptimize(onto.data());
    benchmark::DoNotOptimize(sum);
    benchmark::ClobberMemory();
  }
  count_elements(timing);
}

void register_all() {
  for (const Form& form : forms)
    for (const Isa isa : available_isas()) {
      const std::string name = name_of(isa), prefix = std::string(form.name) + "/";
      benchmark::RegisterBenchmark(
          (prefix + "fp32/" + name).c_str(),
          [&form, isa](benchmark::State& timing) { step<float>(timing, form, isa); });
      benchmark::RegisterBenchmark(
          (prefix + "bf16/" + name).c_str(),
          [&form, isa](benchmark::State& timing) { step<std::uint16_t>(timing, form, isa); });
    }
  benchmark::RegisterBenchmark("copy_of_the_same_bytes", copy);
}

}  // namespace
}  // namespace resumecheck::kernels

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  resumecheck::kernels::register_all();
  benchmark::RunSpecifiedBenchmarks();
}
