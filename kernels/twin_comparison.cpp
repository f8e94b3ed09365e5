// Both sides keep their own state and take several steps, so that one wrong bit is not mended by
// the other's. Everything is compared as bits, NaNs too: there is one stored NaN.
#include "kernels/twin_comparison.h"

#include <algorithm>
#include <cmath>

#include "kernels/slow_twin.h"
#include "kernels/twin_inputs.h"

namespace resumecheck::kernels {
namespace {

// ---- Inputs ---------------------------------------------------------------------------------

std::vector<float> draw_scales(Draw& draw, std::size_t blocks, bool edges) {
  std::vector<float> scales;
  for (std::size_t i = 0; i < blocks; ++i)
    scales.push_back(edges && draw.below(3) == 0 ? std::fabs(draw.edge())
                                                 : std::fabs(draw.value()));
  return scales;
}

constexpr Storage storages[] = {Storage::map8, Storage::map4, Storage::e4m3};

const char* text_of(Storage storage) {
  return storage == Storage::map8 ? "map8" : storage == Storage::map4 ? "map4" : "e4m3";
}

// Of what the storage allows. NaNs among the floats are few, or they would swallow every block; the
// second moment is never negative.
std::uint8_t draw_code(Draw& draw, Storage storage, bool is_signed, bool edges) {
  const auto code = static_cast<std::uint8_t>(draw.word());
  if (storage == Storage::map8) return code;
  if (storage == Storage::map4) return code % 16;
  const bool is_nan = (code & 0x7fU) == 0x7fU;
  const auto drawn = static_cast<std::uint8_t>(is_nan && (!edges || draw.below(50) > 0) ? 1 : code);
  return is_signed ? drawn : drawn & 0x7fU;
}

std::vector<std::uint8_t> draw_codes(Draw& draw, std::int64_t count, Storage storage,
                                     bool is_signed, bool edges) {
  std::vector<std::uint8_t> codes;
  for (std::int64_t i = 0; i < count; ++i)
    codes.push_back(draw_code(draw, storage, is_signed, edges));
  return codes;
}

std::vector<std::uint16_t> draw_rounding(Draw& draw, std::int64_t count) {
  std::vector<std::uint16_t> bits;
  for (std::int64_t i = 0; i < count; ++i) bits.push_back(static_cast<std::uint16_t>(draw.word()));
  return bits;
}

// Every middle between two codes and its neighbours, in blocks whose largest magnitude is a power
// of two, so that the quotient is exactly what stands here.
std::vector<float> values_at_ties(const std::vector<float>& codebook, std::int64_t block) {
  std::vector<float> values;
  const auto push = [&](float value) {
    if (static_cast<std::int64_t>(values.size()) % block == 0) values.push_back(1.0F);
    values.push_back(value);
  };
  for (std::size_t c = 0; c + 1 < codebook.size(); ++c) {
    const float middle = codebook[c] + (codebook[c + 1] - codebook[c]) * 0.5F;
    float near = middle;
    for (int k = 0; k < 3; ++k) near = std::nextafterf(near, -2.0F);
    for (int k = 0; k < 7; ++k, near = std::nextafterf(near, 2.0F))
      if (std::fabs(near) <= 1.0F) push(near);
    push(codebook[c]);
    push(std::nextafterf(codebook[c], -1.0F));
    push(std::nextafterf(codebook[c], 1.0F));
  }
  return values;
}

// Blocks of four whose largest magnitude is around the smallest divisor, 1e-12, on both sides.
std::vector<float> values_around_the_smallest_divisor() {
  std::vector<float> values;
  for (const std::uint32_t largest : {0x2b8cbccaU, 0x2b8cbccbU, 0x2b8cbcccU, 0x2b8cbccdU,
                                      0x2b8cbcceU, 0x2b900000U, 0x2b000000U, 0x00000001U, 0U})
    for (const float share : {1.0F, -0.5F, 0.3F, 0.0F})
      values.push_back(float_from(largest) * share);
  return values;
}

// ---- Storage as the kernels see it ------------------------------------------------------------

struct Stored {
  bool is_bf16 = false;
  std::vector<float> wide;
  std::vector<std::uint16_t> half;
  void* data() { return is_bf16 ? static_cast<void*>(half.data()) : wide.data(); }
  void* at(std::int64_t i) {
    return is_bf16 ? static_cast<void*>(half.data() + i) : wide.data() + i;
  }
  std::uint32_t bits(std::size_t i) const {
    return is_bf16 ? static_cast<std::uint32_t>(half[i]) << 16 : bits_in(wide[i]);
  }
};

Stored stored(const std::vector<float>& values, bool is_bf16) {
  Stored result{is_bf16, {}, {}};
  if (!is_bf16) result.wide = values;
  for (std::size_t i = 0; is_bf16 && i < values.size(); ++i)
    result.half.push_back(static_cast<std::uint16_t>(bits_in(values[i]) >> 16));
  return result;
}

// What a bf16 tensor can hold of these; NaNs keep a payload and both signs.
std::vector<float> representable(std::vector<float> values, bool is_bf16) {
  for (float& value : values)
    if (is_bf16)
      value = std::isnan(value) ? float_from((bits_in(value) | 0x00400000U) & 0xffff0000U)
                                : slow_twin::nearest_bf16(value);
  return values;
}

void count_values(Count& count, const char* what, const std::vector<float>& want,
                  const Stored& got) {
  for (std::size_t i = 0; i < want.size(); ++i)
    count.element(what, i, bits_in(want[i]), got.bits(i));
}

// ---- The quantised step -----------------------------------------------------------------------

// A codebook that has no table and is looked up by search: one entry differs from the standard.
std::vector<float> unusual(std::vector<float> codebook) {
  float& entry = codebook[codebook.size() * 3 / 4];
  entry = std::nextafterf(entry, 2.0F);
  return codebook;
}

slow_twin::Kind kind_of(Storage storage) {
  return storage == Storage::map8   ? slow_twin::Kind::entry_of_256
         : storage == Storage::map4 ? slow_twin::Kind::entry_of_16
                                    : slow_twin::Kind::float8;
}

// How a parameter is kept, and rounded where it is.
struct Kept {
  const char* name;
  bool is_bf16 = false, stochastic = false, master = false;
};
constexpr Kept fp32 = {"fp32"}, bf16 = {"bf16", true};
constexpr Kept all_kept[] = {fp32,
                             bf16,
                             {"bf16 stochastic", true, true},
                             {"bf16 master", true, false, true},
                             {"bf16 stochastic master", true, true, true}};

struct Rule {
  Profile profile;
  const char* name;
  double beta1, beta2, lr, weight_decay;
  std::int64_t first_step;
};
constexpr Rule canonical = {Profile::canonical, "canonical", 0.9, 0.999, 1e-3, 0.01, 1};
constexpr Rule eager = {Profile::torchao_eager, "torchao_eager", 0.9, 0.999, 1e-2, 0.1, 1};
constexpr Rule compiled = {Profile::torchao_compiled, "torchao_compiled", 0.9, 0.999, 1e-2, 0.1, 1};
constexpr Rule rules[] = {canonical, eager, compiled};

constexpr Rule with(Rule rule, double beta1, double beta2, double lr, double weight_decay,
                    std::int64_t first_step) {
  return {rule.profile, rule.name, beta1, beta2, lr, weight_decay, first_step};
}

struct StepCase {
  std::string name;
  std::int64_t count, block;
  Kept kept;
  bool edges;
  Rule rule;
  Storage storage = Storage::map8;
  bool searched = false;  // with codebooks that have no table
};

// More blocks than a device runs at once; only in the second repetition.
constexpr std::int64_t large_count = 1 << 20;
constexpr int steps_of_a_case = 4;

std::vector<StepCase> step_cases() {
  std::vector<StepCase> cases = {
      {"", 4096, 256, fp32, false, canonical},
      {"edges", 8192, 256, fp32, true, canonical},
      {"low betas", 4096, 256, fp32, true, with(canonical, 0.4, 0.45, 3e-4, 0.0, 1)},
      {"", 4096, 256, fp32, true, eager},
      {"late", 4096, 256, fp32, false, with(eager, 0.95, 0.98, 1e-2, 0.1, 1999)},
      {"late", 4096, 256, fp32, false, with(compiled, 0.95, 0.98, 1e-2, 0.1, 1999)},
      {"short last block", 1000, 256, fp32, true, with(canonical, 0.9, 0.999, 1, 0.01, 1)},
      {"blocks of 24", 999, 24, fp32, true, with(canonical, 0.5, 0.5, 1e-3, 0.01, 2)},
      {"blocks of 1000", 3500, 1000, fp32, true, with(canonical, 0.9, 0.99, 1e-3, 0.01, 7)},
      {"searched", 2048, 256, fp32, true, canonical, Storage::map8, true},
      {"searched", 1000, 128, fp32, true, canonical, Storage::map4, true},
      {"", 4096, 256, bf16, false, canonical},
      {"edges", 8192, 256, bf16, true, canonical},
      {"large", large_count, 256, fp32, true, canonical},
      {"low betas", 4096, 256, bf16, true, with(eager, 0.4, 0.95, 3e-4, 0.0, 1)},
      {"short last block", 777, 256, bf16, true, with(eager, 0.9, 0.999, 1, 0.1, 1)},
  };
  for (const Storage storage : storages)
    for (const Kept& kept : all_kept)
      for (const Rule& rule : rules) {
        cases.push_back({"short last block", 300, 128, kept, true, rule, storage});
        const Rule low = with(rule, 0.4, 0.45, 1e-2, 0.1, 3);
        cases.push_back({"low betas", 300, 256, kept, false, low, storage});
      }
  for (StepCase& c : cases)
    c.name = std::string(c.kept.name) + " " + text_of(c.storage) + " " + c.rule.name +
             (c.name.empty() ? "" : " ") + c.name;
  return cases;
}

AdamWSettings kernel_settings(const Rule& rule) {
  return {rule.lr, rule.beta1, rule.beta2, 1e-8, rule.weight_decay, rule.profile};
}

slow_twin::Settings twin_settings(const Rule& rule) {
  const auto twin_rule = rule.profile == Profile::canonical ? slow_twin::Rule::canonical
                         : rule.profile == Profile::torchao_eager
                             ? slow_twin::Rule::torchao_eager
                             : slow_twin::Rule::torchao_compiled;
  return {rule.lr, rule.beta1, rule.beta2, 1e-8, rule.weight_decay, twin_rule};
}

struct QuantisedState {
  Stored param;
  std::vector<std::uint8_t> codes1, codes2;
  std::vector<float> scale1, scale2, codebook1, codebook2, master;
};

slow_twin::Parameter draw_parameter(Draw& draw, const StepCase& c) {
  const auto blocks = static_cast<std::size_t>((c.count + c.block - 1) / c.block);
  slow_twin::Parameter parameter;
  parameter.is_bf16 = c.kept.is_bf16;
  parameter.block = c.block;
  const std::vector<float> values = draw_values(draw, c.count, c.block, c.edges);
  parameter.values = representable(values, c.kept.is_bf16);
  if (c.kept.master) parameter.master = values;
  const auto draw_moment = [&](bool is_signed) {
    return slow_twin::Moment{draw_codes(draw, c.count, c.storage, is_signed, c.edges),
                             draw_scales(draw, blocks, c.edges)};
  };
  parameter.first = draw_moment(true);
  parameter.second = draw_moment(false);
  parameter.first_codebook = slow_twin::codebook(true, kind_of(c.storage));
  parameter.second_codebook = slow_twin::codebook(false, kind_of(c.storage));
  if (c.searched) {
    parameter.first_codebook = unusual(parameter.first_codebook);
    parameter.second_codebook = unusual(parameter.second_codebook);
  }
  return parameter;
}

QuantisedState state_of(const slow_twin::Parameter& parameter) {
  return {stored(parameter.values, parameter.is_bf16),
          parameter.first.codes,
          parameter.second.codes,
          parameter.first.scales,
          parameter.second.scales,
          parameter.first_codebook,
          parameter.second_codebook,
          parameter.master};
}

// What a step is given beside the state.
struct StepInput {
  Stored gradient;
  std::vector<std::uint16_t> rounding;  // empty: to nearest even
  const std::uint16_t* rounding_from(std::int64_t begin) const {
    return rounding.empty() ? nullptr : rounding.data() + begin;
  }
};

StepInput draw_input(Draw& draw, const StepCase& c, std::vector<float>& gradient) {
  gradient = representable(draw_values(draw, c.count, c.block, c.edges), c.kept.is_bf16);
  StepInput input{stored(gradient, c.kept.is_bf16), {}};
  if (c.kept.stochastic) input.rounding = draw_rounding(draw, c.count);
  return input;
}

float* master_from(std::vector<float>& master, std::int64_t begin) {
  return master.empty() ? nullptr : master.data() + begin;
}

const float* codebook_of(const std::vector<float>& codebook) {
  return codebook.empty() ? nullptr : codebook.data();
}

// Elements [begin, end) of the state, with scales of its own for the blocks it touches.
struct Shard {
  QuantisedRun run;
  std::vector<float> scale1, scale2;
};

Shard shard_of(QuantisedState& state, StepInput& input, const StepCase& c, std::int64_t begin,
               std::int64_t end) {
  Shard shard;
  QuantisedRun& run = shard.run;
  run.first = begin;
  run.count = end - begin;
  run.whole = c.count;
  run.block = c.block;
  run.storage = c.storage;
  run.type = c.kept.is_bf16 ? ParamType::bf16 : ParamType::fp32;
  run.param = state.param.at(begin);
  run.grad = input.gradient.at(begin);
  run.rounding = input.rounding_from(begin);
  run.master = master_from(state.master, begin);
  run.codes1 = state.codes1.data() + begin;
  run.codes2 = state.codes2.data() + begin;
  run.codebook1 = codebook_of(state.codebook1);
  run.codebook2 = codebook_of(state.codebook2);
  const std::int64_t from = first_block(run), blocks = blocks_touched(run);
  shard.scale1.assign(state.scale1.begin() + from, state.scale1.begin() + from + blocks);
  shard.scale2.assign(state.scale2.begin() + from, state.scale2.begin() + from + blocks);
  run.scale1 = shard.scale1.data();
  run.scale2 = shard.scale2.data();
  return shard;
}

// A NaN that waits in a cut block travels between ranks and must be the one NaN that is stored.
std::int64_t foreign_nans(const std::vector<float>& values) {
  return std::count_if(values.begin(), values.end(), [](float value) {
    return std::isnan(value) && bits_in(value) != 0x7fc00000U;
  });
}

// The step on the shards between the given boundaries, with the exchange of maxima that ranks do.
// Returns the number of scales on which two shards of a block disagree, and of NaNs with a payload.
std::int64_t step_in_shards(const Subject& subject, QuantisedState& state, StepInput& input,
                            const StepCase& c, const std::vector<std::int64_t>& boundaries,
                            std::int64_t t) {
  const StepScalars scalars = step_scalars(kernel_settings(c.rule), t);
  std::vector<Shard> shards;
  std::vector<std::vector<CutBlock>> cuts;
  std::vector<std::uint32_t> max1(state.scale1.size(), 0), max2(state.scale1.size(), 0);
  std::int64_t disagreeing = 0;
  for (std::size_t k = 0; k + 1 < boundaries.size(); ++k)
    shards.push_back(shard_of(state, input, c, boundaries[k], boundaries[k + 1]));
  for (const Shard& shard : shards) {
    cuts.push_back(subject.update(shard.run, scalars, c.rule.profile));
    for (const CutBlock& cut : cuts.back()) {
      const auto block = static_cast<std::size_t>(cut.block);
      disagreeing += foreign_nans(cut.moment1) + foreign_nans(cut.moment2);
      max1[block] = std::max(max1[block], cut.absmax1);
      max2[block] = std::max(max2[block], cut.absmax2);
    }
  }
  for (std::size_t k = 0; k < shards.size(); ++k)
    for (CutBlock& cut : cuts[k]) {
      cut.absmax1 = max1[static_cast<std::size_t>(cut.block)];
      cut.absmax2 = max2[static_cast<std::size_t>(cut.block)];
      subject.finish(shards[k].run, cut);
    }
  std::vector<bool> seen(state.scale1.size(), false);
  for (const Shard& shard : shards)
    for (std::size_t b = 0; b < shard.scale1.size(); ++b) {
      const std::size_t block = static_cast<std::size_t>(first_block(shard.run)) + b;
      if (seen[block])
        disagreeing += bits_in(state.scale1[block]) != bits_in(shard.scale1[b]) ||
                       bits_in(state.scale2[block]) != bits_in(shard.scale2[b]);
      seen[block] = true;
      state.scale1[block] = shard.scale1[b];
      state.scale2[block] = shard.scale2[b];
    }
  return disagreeing;
}

void count_state(Count& count, const slow_twin::Parameter& want, const QuantisedState& got) {
  count_values(count, "param", want.values, got.param);
  count.floats("master", want.master, got.master);
  count.codes("moment1.codes", want.first.codes, got.codes1);
  count.codes("moment2.codes", want.second.codes, got.codes2);
  count.floats("moment1.scale", want.first.scales, got.scale1);
  count.floats("moment2.scale", want.second.scales, got.scale2);
}

Outcome compare_steps(const Subject& subject, Storage storage, bool is_bf16, int repetitions) {
  Count count(std::string("update_quantised ") + (is_bf16 ? "bf16 " : "fp32 ") + text_of(storage));
  const std::vector<StepCase> cases = step_cases();
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (const StepCase& c : cases) {
      if (c.kept.is_bf16 != is_bf16 || c.storage != storage) continue;
      if (c.count == large_count && repetition != 1) continue;
      Draw draw(static_cast<std::uint32_t>(repetition * 1000 + c.count));
      slow_twin::Parameter twin = draw_parameter(draw, c);
      QuantisedState state = state_of(twin);
      for (std::int64_t t = c.rule.first_step; t < c.rule.first_step + steps_of_a_case; ++t) {
        count.begin(c.name + ", step " + std::to_string(t));
        std::vector<float> gradient;
        StepInput input = draw_input(draw, c, gradient);
        step_in_shards(subject, state, input, c, {0, c.count}, t);
        twin.draws = input.rounding;
        slow_twin::step(twin, gradient, twin_settings(c.rule), t);
        count_state(count, twin, state);
      }
    }
  return count.outcome();
}

// A parameter of a few short blocks, divided in two at every place and in three at every other pair
// of places.
std::vector<std::vector<std::int64_t>> every_division(std::int64_t count) {
  std::vector<std::vector<std::int64_t>> divisions;
  for (std::int64_t a = 0; a <= count; ++a) {
    divisions.push_back({0, a, count});
    for (std::int64_t b = a; b <= count; b += 2) divisions.push_back({0, a, b, count});
  }
  return divisions;
}

std::vector<StepCase> cut_cases() {
  std::vector<StepCase> cases = {
      {"fp32", 37, 8, fp32, true, canonical},
      {"bf16", 21, 8, bf16, true, with(eager, 0.4, 0.999, 1e-3, 0.01, 3)}};
  for (const Storage storage : storages)
    for (const Kept& kept : all_kept) {
      const Rule& rule = rules[cases.size() % std::size(rules)];
      const std::string name = std::string(kept.name) + " " + text_of(storage) + " " + rule.name;
      cases.push_back({name, 13, 5, kept, true, rule, storage});
    }
  return cases;
}

Outcome compare_cut_blocks(const Subject& subject, int repetitions, std::size_t stride) {
  Count count("finish_cut_block");
  const std::vector<StepCase> cases = cut_cases();
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (const StepCase& c : cases) {
      Draw draw(static_cast<std::uint32_t>(77 + repetition));
      const slow_twin::Parameter start = draw_parameter(draw, c);
      std::vector<float> gradient;
      StepInput input = draw_input(draw, c, gradient);
      slow_twin::Parameter twin = start;
      twin.draws = input.rounding;
      slow_twin::step(twin, gradient, twin_settings(c.rule), c.rule.first_step);
      const std::vector<std::vector<std::int64_t>> divisions = every_division(c.count);
      for (std::size_t k = 0; k < divisions.size(); k += stride) {
        const std::vector<std::int64_t>& boundaries = divisions[k];
        std::string name = c.name + " cut at";
        for (const std::int64_t boundary : boundaries) name += ' ' + std::to_string(boundary);
        count.begin(name);
        QuantisedState state = state_of(start);
        const std::int64_t disagreeing =
            step_in_shards(subject, state, input, c, boundaries, c.rule.first_step);
        count.element("scales on which shards disagree, and NaNs with a payload", 0, 0,
                      static_cast<std::uint32_t>(disagreeing));
        count_state(count, twin, state);
      }
    }
  return count.outcome();
}

// ---- The plain step -----------------------------------------------------------------------------

// The twin's parameter and the kernels' storage of the same values.
struct PlainState {
  slow_twin::PlainParameter twin;
  Stored param, first, second;
  std::vector<float> master;
};

PlainState draw_plain(Draw& draw, const StepCase& c, bool moments_are_bf16) {
  const auto drawn = [&](bool is_bf16) {
    return representable(draw_values(draw, c.count, c.block, c.edges), is_bf16);
  };
  PlainState state;
  slow_twin::PlainParameter& twin = state.twin;
  twin.is_bf16 = c.kept.is_bf16;
  twin.moments_are_bf16 = moments_are_bf16;
  twin.values = drawn(c.kept.is_bf16);
  if (c.kept.master) twin.master = drawn(false);
  twin.first = drawn(moments_are_bf16);
  twin.second = drawn(moments_are_bf16);
  for (float& value : twin.second) value = std::fabs(value);
  state.param = stored(twin.values, c.kept.is_bf16);
  state.first = stored(twin.first, moments_are_bf16);
  state.second = stored(twin.second, moments_are_bf16);
  state.master = twin.master;
  return state;
}

void compare_plain_step(Count& count, const Subject& subject, PlainState& state, Draw& draw,
                        const StepCase& c, std::int64_t t) {
  std::vector<float> gradient;
  StepInput input = draw_input(draw, c, gradient);
  PlainRun run;
  run.count = c.count;
  run.type = c.kept.is_bf16 ? ParamType::bf16 : ParamType::fp32;
  run.moment_type = state.twin.moments_are_bf16 ? ParamType::bf16 : ParamType::fp32;
  run.param = state.param.data();
  run.grad = input.gradient.data();
  run.moment1 = state.first.data();
  run.moment2 = state.second.data();
  run.rounding = input.rounding_from(0);
  run.master = master_from(state.master, 0);
  subject.update_plain(run, step_scalars(kernel_settings(c.rule), t), c.rule.profile);
  state.twin.draws = input.rounding;
  slow_twin::step(state.twin, gradient, twin_settings(c.rule), t);
  count_values(count, "param", state.twin.values, state.param);
  count.floats("master", state.twin.master, state.master);
  count_values(count, "moment1.values", state.twin.first, state.first);
  count_values(count, "moment2.values", state.twin.second, state.second);
}

Outcome compare_plain(const Subject& subject, bool is_bf16, bool moments_are_bf16,
                      int repetitions) {
  Count count(std::string("update_plain ") + (is_bf16 ? "bf16" : "fp32") + " moments " +
              (moments_are_bf16 ? "bf16" : "fp32"));
  const std::vector<StepCase> cases = step_cases();
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (const StepCase& c : cases) {
      if (c.kept.is_bf16 != is_bf16 || c.storage != Storage::map8) continue;
      if (c.count == large_count && repetition != 1) continue;
      Draw draw(static_cast<std::uint32_t>(repetition * 1000 + c.count + 5));
      PlainState state = draw_plain(draw, c, moments_are_bf16);
      for (std::int64_t t = c.rule.first_step; t < c.rule.first_step + steps_of_a_case; ++t) {
        count.begin(c.name + ", step " + std::to_string(t));
        compare_plain_step(count, subject, state, draw, c, t);
      }
    }
  return count.outcome();
}

// ---- Quantise and dequantise
// ----------------------------------------------------------------------

struct BlockSize {
  std::int64_t count, block;
};
constexpr BlockSize block_sizes[] = {{4096, 256}, {1000, 256}, {1, 256},    {333, 32},
                                     {70, 7},     {5000, 999}, {4097, 4096}};

void compare_quantised(Count& count, const Subject& subject, Storage storage,
                       const std::vector<float>& values, std::int64_t block,
                       const std::vector<float>& codebook) {
  const auto elements = static_cast<std::int64_t>(values.size());
  const slow_twin::Moment want = slow_twin::quantise(values, block, codebook);
  std::vector<std::uint8_t> codes(values.size());
  std::vector<float> scale(want.scales.size());
  subject.quantise(storage, values.data(), elements, block, codebook_of(codebook), codes.data(),
                   scale.data());
  count.codes("codes", want.codes, codes);
  count.floats("scale", want.scales, scale);
}

// Blocks whose scale is 1 (their largest magnitude is 448), so that every float of 8 bits, every
// middle between two and their neighbours are quotients.
std::vector<float> values_at_float8_ties(std::int64_t block) {
  std::vector<float> values;
  const auto push = [&](float value) {
    if (values.size() % static_cast<std::size_t>(block) == 0) values.push_back(448.0F);
    for (const float near : {value, std::nextafterf(value, 0.0F), std::nextafterf(value, 448.0F)})
      for (const float signed_value : {near, -near})
        if (values.size() % static_cast<std::size_t>(block) != 0) values.push_back(signed_value);
  };
  for (int code = 0; code < 0x7e; ++code) {
    const double low = slow_twin::float8_value(static_cast<std::uint8_t>(code));
    const double high = slow_twin::float8_value(static_cast<std::uint8_t>(code + 1));
    push(static_cast<float>(low));
    push(static_cast<float>((low + high) / 2));
  }
  return values;
}

std::vector<std::vector<float>> codebooks_to_try(Storage storage, bool has_negatives) {
  const std::vector<float> standard = slow_twin::codebook(has_negatives, kind_of(storage));
  if (standard.empty()) return {standard};
  return {standard, unusual(standard)};
}

std::string map_name(const char* kernel, Storage storage, bool has_negatives) {
  return std::string(kernel) + " " + text_of(storage) + (has_negatives ? " signed" : " unsigned");
}

Outcome compare_quantise(const Subject& subject, Storage storage, bool has_negatives,
                         int repetitions) {
  Count count(map_name("quantise", storage, has_negatives));
  for (const std::vector<float>& codebook : codebooks_to_try(storage, has_negatives)) {
    for (const std::int64_t block : {16, 256}) {
      count.begin("ties between codes, block " + std::to_string(block));
      compare_quantised(
          count, subject, storage,
          codebook.empty() ? values_at_float8_ties(block) : values_at_ties(codebook, block), block,
          codebook);
    }
    count.begin("largest magnitudes around 1e-12");
    compare_quantised(count, subject, storage, values_around_the_smallest_divisor(), 4, codebook);
    for (int repetition = 0; repetition < repetitions; ++repetition)
      for (const BlockSize& size : block_sizes) {
        count.begin("block " + std::to_string(size.block) + " of " + std::to_string(size.count));
        Draw draw(static_cast<std::uint32_t>(repetition * 31 + size.count));
        std::vector<float> values = draw_values(draw, size.count, size.block, true);
        compare_quantised(count, subject, storage, values, size.block, codebook);
      }
  }
  return count.outcome();
}

// The run starts anywhere in its tensor: its first block may be cut.
Outcome compare_dequantise(const Subject& subject, Storage storage, bool has_negatives,
                           int repetitions) {
  Count count(map_name("dequantise", storage, has_negatives));
  const std::vector<float> codebook = slow_twin::codebook(has_negatives, kind_of(storage));
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (const BlockSize& size : block_sizes)
      for (const std::int64_t first :
           {std::int64_t{0}, std::int64_t{1}, size.block - 1, size.block, size.count / 2}) {
        if (first > size.count) continue;
        count.begin("block " + std::to_string(size.block) + " from " + std::to_string(first));
        Draw draw(static_cast<std::uint32_t>(repetition * 17 + size.count));
        const auto blocks = static_cast<std::size_t>((size.count + size.block - 1) / size.block);
        const slow_twin::Moment moment = {
            draw_codes(draw, size.count, storage, has_negatives, true),
            draw_scales(draw, blocks, true)};
        std::vector<float> want = slow_twin::dequantise(moment, size.block, codebook);
        want.erase(want.begin(), want.begin() + first);
        std::vector<float> got(want.size());
        const std::int64_t touched =
            std::min(first / size.block, static_cast<std::int64_t>(blocks));
        subject.dequantise(storage, moment.codes.data() + first, moment.scales.data() + touched,
                           codebook_of(codebook), first, size.count - first, size.block,
                           got.data());
        count.floats("values", want, got);
      }
  return count.outcome();
}

}  // namespace

Subject host_subject(Isa isa) {
  Subject subject;
  subject.name = name_of(isa);
  subject.update = [isa](const QuantisedRun& run, const StepScalars& scalars, Profile profile) {
    return update_quantised(run, scalars, profile, isa);
  };
  subject.finish = [isa](const QuantisedRun& run, const CutBlock& cut) {
    finish_cut_block(run, cut, isa);
  };
  subject.update_plain = [isa](const PlainRun& run, const StepScalars& scalars, Profile profile) {
    update_plain(run, scalars, profile, isa);
  };
  subject.quantise = [isa](Storage storage, const float* values, std::int64_t count,
                           std::int64_t block, const float* codebook, std::uint8_t* codes,
                           float* scale) {
    quantise(storage, values, count, block, codebook, codes, scale, isa);
  };
  subject.dequantise = [isa](Storage storage, const std::uint8_t* codes, const float* scale,
                             const float* codebook, std::int64_t first, std::int64_t count,
                             std::int64_t block, float* values) {
    dequantise(storage, codes, scale, codebook, first, count, block, values, isa);
  };
  return subject;
}

std::vector<Outcome> compare_with_twin(const Subject& subject, int repetitions,
                                       std::size_t division_stride) {
  std::vector<Outcome> outcomes;
  for (const Storage storage : storages)
    for (const bool is_bf16 : {false, true})
      outcomes.push_back(compare_steps(subject, storage, is_bf16, repetitions));
  outcomes.push_back(compare_cut_blocks(subject, repetitions, division_stride));
  for (const bool is_bf16 : {false, true})
    for (const bool moments_are_bf16 : {false, true})
      outcomes.push_back(compare_plain(subject, is_bf16, moments_are_bf16, repetitions));
  for (const Storage storage : storages)
    for (const bool has_negatives : {true, false}) {
      if (storage == Storage::e4m3 && !has_negatives) continue;  // one code for both moments
      outcomes.push_back(compare_quantise(subject, storage, has_negatives, repetitions));
      outcomes.push_back(compare_dequantise(subject, storage, has_negatives, repetitions));
    }
  return outcomes;
}

}  // namespace resumecheck::kernels
