#include "harness/compare/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>

#include "harness/compare/element.h"
#include "harness/compare/fp8_hypotheses.h"
#include "harness/compare/placement_hypotheses.h"
#include "harness/compare/run_state_hypotheses.h"
#include "harness/compare/suspect.h"
#include "kernels/adamw.h"

namespace resumecheck {
namespace {

using Kind = Difference::Kind;

// Elements at which got has the bits of `other`, a tensor of the same description.
std::optional<Explained> count_equal(const Suspect& suspect, const LogicalTensor& other) {
  if (other.dtype != suspect.got->dtype || other.shape != suspect.got->shape) return std::nullopt;
  return Explained{count_predicted(suspect,
                                   [&](std::int64_t i) {
                                     return load_bits(other.bytes.data() + i * size_of(other.dtype),
                                                      other.dtype);
                                   }),
                   ""};
}

std::optional<Explained> as_in(const Suspect& suspect, const LogicalState& state) {
  if (suspect.is_value()) {
    const auto found = state.values.find(suspect.key.name);
    if (found == state.values.end()) return std::nullopt;
    return Explained{found->second == *suspect.got_value ? 1 : 0, ""};
  }
  const LogicalTensor* tensor = find(state, suspect.key);
  return tensor == nullptr ? std::nullopt : count_equal(suspect, *tensor);
}

std::optional<Dtype> dtype_of_parameters(const Evidence& evidence) {
  if (evidence.param_dtype == "fp32") return Dtype::f32;
  if (evidence.param_dtype == "fp16") return Dtype::f16;
  if (evidence.param_dtype == "bf16") return Dtype::bf16;
  return std::nullopt;
}

// ---- one function a hypothesis

std::optional<Explained> cast_to_param_dtype(const Suspect& suspect, const Evidence& evidence) {
  if (suspect.is_value() || suspect.same_dtype() || !is_float(suspect.want->dtype) ||
      dtype_of_parameters(evidence) != suspect.got->dtype) {
    return std::nullopt;
  }
  return Explained{
      count_predicted(suspect,
                      [&](std::int64_t i) {
                        return round_to(value_of(suspect.want_bits(i), suspect.want->dtype),
                                        suspect.got->dtype);
                      }),
      fmt::format("{} became {}", name_of(suspect.want->dtype), name_of(suspect.got->dtype))};
}

Trial rounded_through(Dtype narrow) {
  return [narrow](const Suspect& suspect, const Evidence& evidence) -> std::optional<Explained> {
    if (!suspect.same_dtype() || !is_float(suspect.want->dtype)) return std::nullopt;
    const Dtype wide = suspect.want->dtype;
    // Rounding a narrow value to its own or a wider format changes nothing: nothing to explain.
    if (size_of(wide) < size_of(narrow) || wide == narrow) return std::nullopt;
    const auto predict = [&](std::int64_t i) {
      const double value = value_of(suspect.want_bits(i), wide);
      return round_to(value_of(*round_to(value, narrow), narrow), wide);
    };
    return Explained{count_predicted(suspect, predict),
                     dtype_of_parameters(evidence) == narrow ? "the parameters' dtype" : ""};
  };
}

std::optional<Explained> one_step_stale(const Suspect& suspect, const Evidence& evidence) {
  if (evidence.one_step_before == nullptr) return std::nullopt;
  return as_in(suspect, evidence.one_step_before->state);
}

std::optional<Explained> one_step_ahead(const Suspect& suspect, const Evidence& evidence) {
  if (evidence.one_step_after == nullptr) return std::nullopt;
  return as_in(suspect, evidence.one_step_after->state);
}

// Optimizer state starts at zero; parameters and the rest start as the saving run did.
std::optional<Explained> fresh_start(const Suspect& suspect, const Evidence& evidence) {
  if (selects("fp8", suspect.key.part)) return std::nullopt;  // has hypotheses of its own
  std::optional<Explained> explained;
  if (evidence.fresh != nullptr) explained = as_in(suspect, *evidence.fresh);
  const bool starts_at_zero = suspect.key.part.starts_with("moment") || suspect.key.part == "step";
  if (!suspect.is_value() && starts_at_zero) {
    const std::int64_t zeros =
        count_predicted(suspect, [](std::int64_t) { return std::uint64_t{0}; });
    if (!explained || zeros > explained->elements) explained = Explained{zeros, "all zero"};
  }
  return explained;
}

// Steps since the load instead of steps since the start.
std::optional<Explained> step_restarted(const Suspect& suspect, const Evidence& evidence) {
  if (suspect.is_value() || suspect.key.part != "step") return std::nullopt;
  std::int64_t from_zero = 0;
  std::int64_t from_load = 0;
  for (const std::int64_t i : suspect.differing) {
    const double want = value_of(suspect.want_bits(i), suspect.want->dtype);
    const double got = value_of(suspect.got_bits(i), suspect.got->dtype);
    if (got == 0) ++from_zero;
    if (evidence.saved_step >= 0 && got == want - static_cast<double>(evidence.saved_step)) {
      ++from_load;
    }
  }
  if (from_load > from_zero) return Explained{from_load, "counts from the load"};
  return Explained{from_zero, "is 0"};
}

// ---- another rank's shard

std::vector<Bytes> shards(const LogicalTensor& tensor, const std::vector<HeldBox>& holders) {
  std::vector<Bytes> result;
  const std::size_t size = size_of(tensor.dtype);
  for (const HeldBox& held : holders) {
    Bytes& shard = result.emplace_back(held.box.element_count() * size);
    copy_region(held.box, Box::whole(tensor.shape), tensor.bytes, held.box, shard, size);
  }
  return result;
}

// Marks the differing elements inside the box; the number newly marked.
std::int64_t mark(const Suspect& suspect, const Box& box, std::vector<bool>& marked) {
  std::int64_t count = 0;
  const auto& differing = suspect.differing;
  for_each_run(box, suspect.want->shape,
               [&](std::int64_t, std::int64_t in_tensor, std::int64_t length) {
                 auto at = std::lower_bound(differing.begin(), differing.end(), in_tensor);
                 for (; at != differing.end() && *at < in_tensor + length; ++at) {
                   const auto index = static_cast<std::size_t>(at - differing.begin());
                   if (!marked[index]) ++count;
                   marked[index] = true;
                 }
               });
  return count;
}

// Under one mesh: which ranks hold, whole and bit for bit, what another rank should? Says whether
// any two ranks could have been confused.
bool shards_of_others(const Suspect& suspect, const AssembledState& mesh_of, bool name_mesh,
                      std::vector<bool>& marked, Explained& explained) {
  const auto found = mesh_of.holders.find(suspect.key);
  if (found == mesh_of.holders.end()) return false;
  const std::vector<HeldBox>& holders = found->second;
  for (const HeldBox& held : holders) {
    if (!held.box.inside(suspect.want->shape)) return false;
  }
  const std::vector<Bytes> want = shards(*suspect.want, holders);
  const std::vector<Bytes> got = shards(*suspect.got, holders);
  bool possible = false;
  for (std::size_t here = 0; here < holders.size(); ++here) {
    for (std::size_t there = 0; there < holders.size(); ++there) {
      if (holders[here].box == holders[there].box ||
          holders[here].box.sizes() != holders[there].box.sizes()) {
        continue;
      }
      possible = true;
      if (got[here] != want[there]) continue;
      const std::int64_t newly = mark(suspect, holders[here].box, marked);
      explained.elements += newly;
      if (newly > 0 && explained.detail.empty()) {
        explained.detail = fmt::format("rank {}{} holds the shard of rank {}", holders[here].rank,
                                       name_mesh ? " of " + mesh_of.mesh : "", holders[there].rank);
      }
    }
  }
  return possible;
}

std::optional<Explained> another_ranks_shard(const Suspect& suspect, const Evidence& evidence) {
  if (!suspect.same_dtype()) return std::nullopt;
  const bool two_meshes = evidence.want->mesh != evidence.got->mesh;
  std::vector<bool> marked(suspect.differing.size());
  Explained explained;
  bool possible = false;
  for (const AssembledState* mesh_of : {evidence.got, evidence.want}) {
    possible |= shards_of_others(suspect, *mesh_of, two_meshes, marked, explained);
  }
  return possible ? std::optional(explained) : std::nullopt;
}

// ---- of a quantised moment

struct PartOfMoment {
  std::string moment, kind;  // "moment1", "codes"
};

std::optional<PartOfMoment> part_of_moment(const Suspect& suspect) {
  const std::size_t dot = suspect.key.part.find('.');
  if (!suspect.same_dtype() || dot == std::string::npos) return std::nullopt;
  return PartOfMoment{suspect.key.part.substr(0, dot), suspect.key.part.substr(dot + 1)};
}

const LogicalTensor* sibling(const Suspect& suspect, const LogicalState& state,
                             const std::string& moment, const char* kind) {
  return find(state, {suspect.key.name, moment + "." + kind});
}

std::optional<Explained> codes_one_block_off(const Suspect& suspect, const Evidence&) {
  const auto part = part_of_moment(suspect);
  if (!part || part->kind != "codes") return std::nullopt;
  return moved_by(suspect, suspect.want->block);
}

std::optional<Explained> scale_of_neighbour(const Suspect& suspect, const Evidence&) {
  const auto part = part_of_moment(suspect);
  if (!part || part->kind != "scale") return std::nullopt;
  return moved_by(suspect, 1);
}

std::optional<Explained> nibbles_swapped(const Suspect& suspect, const Evidence& evidence) {
  const auto part = part_of_moment(suspect);
  if (!part || part->kind != "codes") return std::nullopt;
  const LogicalTensor* book = sibling(suspect, evidence.want->state, part->moment, "codebook");
  const std::int64_t count = element_count(suspect.want->shape);
  if (book == nullptr || element_count(book->shape) != 16 || count % 2 != 0) return std::nullopt;
  return if_whole(suspect, [&](std::int64_t i) { return suspect.want_bits(i ^ 1); });
}

// What a loader without the saved codebook has: zeros, or the one of the other moment, which it
// makes first.
std::optional<Explained> codebook_dropped(const Suspect& suspect, const Evidence& evidence) {
  const auto part = part_of_moment(suspect);
  if (!part || part->kind != "codebook") return std::nullopt;
  const auto zeros = if_whole(
      suspect, [](std::int64_t) { return std::uint64_t{0}; }, "all zero");
  if (zeros->elements > 0) return zeros;
  const char* other = part->moment == "moment1" ? "moment2" : "moment1";
  const LogicalTensor* book = sibling(suspect, evidence.want->state, other, "codebook");
  if (book == nullptr || book->dtype != suspect.got->dtype || book->shape != suspect.got->shape) {
    return zeros;
  }
  const auto bits = [&](std::int64_t i) {
    return load_bits(book->bytes.data() + i * size_of(book->dtype), book->dtype);
  };
  return if_whole(suspect, bits, "is that of the other moment");
}

std::optional<Explained> master_rederived(const Suspect& suspect, const Evidence& evidence) {
  if (!suspect.same_dtype() || suspect.key.part != "master") return std::nullopt;
  const LogicalTensor* param = find(evidence.want->state, {suspect.key.name, "param"});
  if (param == nullptr || param->shape != suspect.want->shape || !is_float(param->dtype)) {
    return std::nullopt;
  }
  return Explained{
      count_predicted(suspect,
                      [&](std::int64_t i) {
                        const std::size_t size = size_of(param->dtype);
                        const auto bits = load_bits(param->bytes.data() + i * size, param->dtype);
                        return round_to(value_of(bits, param->dtype), suspect.got->dtype);
                      }),
      ""};
}

struct Quantised {
  std::vector<std::uint8_t> codes;
  std::vector<float> scale;
};

// How the codes, scales and codebook of one moment are stored.
struct Format {
  kernels::Storage storage = kernels::Storage::map8;
  std::int64_t count = 0, block = 0, blocks = 0;
  std::vector<float> codebook;  // empty for codes that are floats

  const float* entries() const { return codebook.empty() ? nullptr : codebook.data(); }
};

// Nothing where these are not the parts of one quantised moment.
std::optional<Format> format_of(const LogicalTensor* codes, const LogicalTensor* scale,
                                const LogicalTensor* codebook) {
  if (codes == nullptr || scale == nullptr || codes->block <= 0) return std::nullopt;
  Format format;
  format.count = element_count(codes->shape);
  format.block = codes->block;
  format.blocks = (format.count + codes->block - 1) / codes->block;
  if (scale->dtype != Dtype::f32 || element_count(scale->shape) != format.blocks) {
    return std::nullopt;
  }
  if (codes->dtype == Dtype::f8_e4m3) {
    format.storage = kernels::Storage::e4m3;
    return codebook == nullptr ? std::optional(format) : std::nullopt;
  }
  if (codes->dtype != Dtype::u8 || codebook == nullptr || codebook->dtype != Dtype::f32) {
    return std::nullopt;
  }
  const std::int64_t entries = element_count(codebook->shape);
  if (entries != 16 && entries != 256) return std::nullopt;
  const auto beyond = [&](std::byte code) { return static_cast<std::int64_t>(code) >= entries; };
  if (std::any_of(codes->bytes.begin(), codes->bytes.end(), beyond)) return std::nullopt;
  format.storage = entries == 16 ? kernels::Storage::map4 : kernels::Storage::map8;
  format.codebook.resize(static_cast<std::size_t>(entries));
  std::memcpy(format.codebook.data(), codebook->bytes.data(), codebook->bytes.size());
  return format;
}

std::vector<float> dequantise(const Format& format, const LogicalTensor& codes,
                              const LogicalTensor& scale) {
  std::vector<float> scales(format.blocks);
  std::vector<float> values(format.count);
  std::memcpy(scales.data(), scale.bytes.data(), scale.bytes.size());
  kernels::dequantise(format.storage, reinterpret_cast<const std::uint8_t*>(codes.bytes.data()),
                      scales.data(), format.entries(), 0, format.count, format.block, values.data(),
                      kernels::best_isa());
  return values;
}

Quantised quantise(const Format& format, const std::vector<float>& values) {
  Quantised made{std::vector<std::uint8_t>(format.count), std::vector<float>(format.blocks)};
  kernels::quantise(format.storage, values.data(), format.count, format.block, format.entries(),
                    made.codes.data(), made.scale.data(), kernels::best_isa());
  return made;
}

std::optional<Explained> requantised(const Suspect& suspect, const Evidence& evidence) {
  const auto part = part_of_moment(suspect);
  if (!part || (part->kind != "codes" && part->kind != "scale")) return std::nullopt;
  const auto want = [&](const char* kind) {
    return sibling(suspect, evidence.want->state, part->moment, kind);
  };
  const auto format = format_of(want("codes"), want("scale"), want("codebook"));
  if (!format) return std::nullopt;
  const Quantised again = quantise(*format, dequantise(*format, *want("codes"), *want("scale")));
  const bool codes = part->kind == "codes";
  const auto* predicted = codes ? reinterpret_cast<const std::byte*>(again.codes.data())
                                : reinterpret_cast<const std::byte*>(again.scale.data());
  const std::size_t size = codes ? 1 : sizeof(float);
  return Explained{count_predicted(suspect,
                                   [&](std::int64_t i) {
                                     return load_bits(predicted + i * size, suspect.want->dtype);
                                   }),
                   ""};
}

// The values that the codes stand for, or the codes that the values are quantised to.
std::optional<Explained> storage_width_flipped(const Suspect& suspect, const Evidence& evidence) {
  const bool now_values = suspect.got->block == 0;
  const LogicalState& with_codes = now_values ? evidence.want->state : evidence.got->state;
  const auto part = [&](const char* kind) {
    return sibling(suspect, with_codes, suspect.key.part, kind);
  };
  const auto format = format_of(part("codes"), part("scale"), part("codebook"));
  if (!format || format->count != suspect.count()) return std::nullopt;
  if (now_values) {
    const std::vector<float> values = dequantise(*format, *suspect.want, *part("scale"));
    const auto predict = [&](std::int64_t i) { return round_to(values[i], suspect.got->dtype); };
    return Explained{count_predicted(suspect, predict), "dequantised"};
  }
  if (!is_float(suspect.want->dtype)) return std::nullopt;
  std::vector<float> values(format->count);
  for (std::int64_t i = 0; i < format->count; ++i) {
    values[i] = static_cast<float>(value_of(suspect.want_bits(i), suspect.want->dtype));
  }
  const Quantised made = quantise(*format, values);
  return Explained{
      count_predicted(suspect, [&](std::int64_t i) { return std::uint64_t{made.codes[i]}; }),
      "quantised"};
}

// ---- scaled by the number of ranks

// The numbers of ranks that a sum or mean may have run over: the world and each dim of the mesh.
void add_rank_counts(const AssembledState& assembled, std::set<int>& counts) {
  if (assembled.world > 1) counts.insert(assembled.world);
  int number = 0;
  for (const char c : assembled.mesh + " ") {
    if (std::isdigit(static_cast<unsigned char>(c)) && number < 10'000) {
      number = number * 10 + (c - '0');
    } else {
      if (number > 1) counts.insert(number);
      number = 0;
    }
  }
}

struct Factor {
  std::string text;
  float times = 1;
  float over = 1;
};

// Frameworks multiply by n, divide by n, or multiply by a rounded 1/n; the second moment of a
// gradient that was scaled by n is scaled by n * n.
std::vector<Factor> factors(const Evidence& evidence, const std::string& part) {
  std::set<int> counts;
  add_rank_counts(*evidence.want, counts);
  add_rank_counts(*evidence.got, counts);
  if (part.starts_with("moment2")) {
    for (const int n : std::set<int>(counts)) counts.insert(n * n);
  }
  std::vector<Factor> result;
  for (const int n : counts) {
    const auto value = static_cast<float>(n);
    result.push_back({fmt::format("times {}", n), value, 1});
    result.push_back({fmt::format("divided by {}", n), 1, value});
    if ((n & (n - 1)) != 0) result.push_back({fmt::format("times 1/{}", n), 1 / value, 1});
  }
  return result;
}

std::uint64_t scaled(double value, const Factor& factor, Dtype dtype) {
  if (dtype == Dtype::f64) return *round_to(value * factor.times / factor.over, dtype);
  return *round_to(static_cast<float>(value) * factor.times / factor.over, dtype);
}

std::optional<Explained> scaled_by_ranks(const Suspect& suspect, const Evidence& evidence) {
  if (!suspect.same_dtype() || !round_to(0, suspect.want->dtype)) return std::nullopt;
  std::optional<Explained> best;
  for (const Factor& factor : factors(evidence, suspect.key.part)) {
    const std::int64_t count = count_predicted(suspect, [&](std::int64_t i) {
      return scaled(value_of(suspect.want_bits(i), suspect.want->dtype), factor,
                    suspect.want->dtype);
    });
    if (!best || count > best->elements) best = Explained{count, factor.text};
  }
  return best;
}

// Of several that explain equally much, the most specific comes first.
std::vector<Hypothesis> hypotheses() {
  std::vector<Hypothesis> all = fp8_hypotheses();
  for (Hypothesis& one : run_state_hypotheses()) all.push_back(std::move(one));
  for (Hypothesis& one : placement_hypotheses()) all.push_back(std::move(one));
  const std::vector<Hypothesis> others = {
      {"cast to the parameters' dtype", cast_to_param_dtype},
      {"step restarted", step_restarted},
      {"master re-derived from the parameter", master_rederived},
      {"codebook dropped", codebook_dropped},
      {"codes one block off", codes_one_block_off},
      {"nibbles swapped", nibbles_swapped},
      {"scale of a neighbouring block", scale_of_neighbour},
      {"rounded through bf16", rounded_through(Dtype::bf16)},
      {"rounded through fp16", rounded_through(Dtype::f16)},
      {"another rank's shard", another_ranks_shard},
      {"one step stale", one_step_stale},
      {"one step ahead", one_step_ahead},
      {"fresh start", fresh_start},
      {"requantised", requantised},
      {"storage width flipped", storage_width_flipped, Suspect::Of::width},
      {"scaled by the number of ranks", scaled_by_ranks},
  };
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

std::vector<std::int64_t> differing_elements(const LogicalTensor& want, const LogicalTensor& got) {
  std::vector<std::int64_t> differing;
  const std::int64_t count = element_count(want.shape);
  const std::size_t size = size_of(want.dtype);
  for (std::int64_t i = 0; i < count; ++i) {
    if (want.dtype != got.dtype ||
        std::memcmp(want.bytes.data() + i * size, got.bytes.data() + i * size, size) != 0) {
      differing.push_back(i);
    }
  }
  return differing;
}

std::optional<Suspect> suspect_of_width(const Difference& difference, const Evidence& evidence) {
  Suspect suspect;
  suspect.key = difference.key;
  suspect.of = Suspect::Of::width;
  const auto stored = [&](const LogicalState& state) {
    const LogicalTensor* codes = sibling(suspect, state, difference.key.part, "codes");
    return codes != nullptr ? codes : sibling(suspect, state, difference.key.part, "values");
  };
  suspect.want = stored(evidence.want->state);
  suspect.got = stored(evidence.got->state);
  if (suspect.want == nullptr || suspect.got == nullptr ||
      suspect.want->shape != suspect.got->shape) {
    return std::nullopt;
  }
  suspect.differing = differing_elements(*suspect.want, *suspect.got);
  return suspect;
}

std::optional<Suspect> suspect_of_missing(const Difference& difference, const Evidence& evidence) {
  if (!selects("fp8", difference.key.part)) return std::nullopt;
  Suspect suspect;
  suspect.key = difference.key;
  suspect.of = Suspect::Of::missing;
  suspect.want = find(evidence.want->state, difference.key);
  suspect.differing.resize(static_cast<std::size_t>(element_count(suspect.want->shape)));
  return suspect;
}

std::optional<Suspect> suspect_of(const Difference& difference, const Evidence& evidence) {
  Suspect suspect;
  suspect.key = difference.key;
  if (difference.kind == Kind::value) {
    const auto got = evidence.got->state.values.find(difference.key.name);
    if (got == evidence.got->state.values.end()) return std::nullopt;
    suspect.got_value = &got->second;
    return suspect;
  }
  if (difference.kind == Kind::storage_width) return suspect_of_width(difference, evidence);
  if (difference.kind == Kind::missing) return suspect_of_missing(difference, evidence);
  if (difference.kind != Kind::bytes && difference.kind != Kind::dtype) return std::nullopt;
  suspect.want = find(evidence.want->state, difference.key);
  suspect.got = find(evidence.got->state, difference.key);
  if (suspect.want == nullptr || suspect.got == nullptr) return std::nullopt;
  suspect.differing = differing_elements(*suspect.want, *suspect.got);
  return suspect;
}

}  // namespace

Diagnosis diagnose(const Comparison& comparison, const Evidence& evidence) {
  std::vector<Suspect> suspects;
  std::int64_t total = 0;
  for (const Difference& difference : comparison.differences) {
    if (std::optional<Suspect> suspect = suspect_of(difference, evidence)) {
      total += suspect->count();
      suspects.push_back(std::move(*suspect));
    }
  }
  Diagnosis diagnosis;
  for (const auto& [name, trial, of] : hypotheses()) {
    Fit fit{name, 0, total, ""};
    bool tried = false;
    bool explains_one = false;
    for (const Suspect& suspect : suspects) {
      if (suspect.of != of) continue;
      const std::optional<Explained> explained = trial(suspect, evidence);
      if (!explained) continue;
      tried = true;
      fit.fits += explained->elements;
      if (explained->elements != suspect.count() || explained->elements == 0) continue;
      if (!explains_one) fit.detail = explained->detail;
      explains_one = true;
    }
    if (explains_one) {
      diagnosis.fits.push_back(fit);
    } else if (tried) {
      diagnosis.does_not_fit.push_back(name);
    }
  }
  std::stable_sort(diagnosis.fits.begin(), diagnosis.fits.end(),
                   [](const Fit& left, const Fit& right) { return left.fits > right.fits; });
  return diagnosis;
}

}  // namespace resumecheck
