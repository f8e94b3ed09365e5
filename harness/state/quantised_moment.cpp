#include "harness/state/quantised_moment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

namespace resumecheck {
namespace {

constexpr const char* kIncomplete = "codes, scales and codebook must be saved and loaded together";
constexpr const char* kOfAnother =
    "they must come from one save of one optimizer, and be cut and joined alike";

// The tensors of one moment, as far as they are there.
struct Moment {
  std::string name, moment;  // "ffn.up", "moment1"
  const LogicalTensor* codes = nullptr;
  const LogicalTensor* scale = nullptr;
  const LogicalTensor* codebook = nullptr;

  TensorKey key(const char* kind) const { return {name, moment + "." + kind}; }
  bool codes_are_floats() const { return codes->dtype == Dtype::f8_e4m3; }
};

using Misfit = std::optional<MomentMisfit>;

Misfit misfit(const Moment& moment, const char* kind, const std::string& what, const char* cure) {
  const TensorKey key = moment.key(kind);
  return MomentMisfit{key, to_text(key) + " " + what, cure};
}

Misfit missing_part(const Moment& moment) {
  if (moment.codes == nullptr) {
    return misfit(moment, "codes", "is missing, but there are scales or a codebook", kIncomplete);
  }
  if (moment.codes->dtype != Dtype::u8 && !moment.codes_are_floats()) {
    return misfit(moment, "codes",
                  fmt::format("is {}: codes are U8 or F8_E4M3", name_of(moment.codes->dtype)),
                  kOfAnother);
  }
  if (moment.scale == nullptr) {
    return misfit(moment, "scale", "is missing, but there are codes", kIncomplete);
  }
  if (moment.codebook == nullptr && !moment.codes_are_floats()) {
    return misfit(moment, "codebook", "is missing, but the codes are indices of one", kIncomplete);
  }
  if (moment.codebook != nullptr && moment.codes_are_floats()) {
    return misfit(moment, "codebook", "is there, but the codes are F8_E4M3 and have none",
                  kOfAnother);
  }
  return std::nullopt;
}

Misfit scale_misfit(const Moment& moment) {
  const std::int64_t block = moment.codes->block;
  if (block <= 0) {
    return misfit(moment, "codes", "has no block size, so that no scale belongs to a code",
                  "the state must say how many elements a block has");
  }
  const std::int64_t elements = element_count(moment.codes->shape);
  const std::int64_t blocks = elements / block + (elements % block == 0 ? 0 : 1);
  const std::int64_t scales = element_count(moment.scale->shape);
  if (scales == blocks) return std::nullopt;
  return misfit(moment, "scale",
                fmt::format("has {} entries, but {} codes in blocks of {} have {}", scales,
                            elements, block, blocks),
                kOfAnother);
}

Misfit codebook_misfit(const Moment& moment) {
  const LogicalTensor& codebook = *moment.codebook;
  const auto entries = static_cast<std::size_t>(element_count(codebook.shape));
  if (entries != 16 && entries != 256) {
    return misfit(moment, "codebook", fmt::format("has {} entries: there are 16 or 256", entries),
                  kOfAnother);
  }
  if (codebook.dtype == Dtype::f32) {
    std::vector<float> values(entries);
    std::memcpy(values.data(), codebook.bytes.data(), codebook.bytes.size());
    for (std::size_t i = 0; i < entries; ++i) {
      if (std::isfinite(values[i]) && (i == 0 || values[i - 1] < values[i])) continue;
      return misfit(moment, "codebook",
                    fmt::format("is not ascending and finite: entry {} is {}", i, values[i]),
                    "it was lost or overwritten: load the one that was saved");
    }
  }
  const auto beyond =
      std::find_if(moment.codes->bytes.begin(), moment.codes->bytes.end(),
                   [&](std::byte code) { return static_cast<std::size_t>(code) >= entries; });
  if (beyond == moment.codes->bytes.end()) return std::nullopt;
  return misfit(
      moment, "codes",
      fmt::format("has the code {} at element {}, but its codebook ends at {}",
                  static_cast<int>(*beyond), beyond - moment.codes->bytes.begin(), entries - 1),
      kOfAnother);
}

Misfit misfit_of(const Moment& moment) {
  if (auto missing = missing_part(moment)) return missing;
  if (auto scale = scale_misfit(moment)) return scale;
  return moment.codebook == nullptr ? std::nullopt : codebook_misfit(moment);
}

std::map<TensorKey, Moment> quantised_moments(const LogicalState& state) {
  std::map<TensorKey, Moment> moments;
  for (const auto& [key, tensor] : state.tensors) {
    const std::size_t dot = key.part.find('.');
    if (dot == std::string::npos) continue;
    const std::string kind = key.part.substr(dot + 1);
    const LogicalTensor* Moment::*member = kind == "codes"      ? &Moment::codes
                                           : kind == "scale"    ? &Moment::scale
                                           : kind == "codebook" ? &Moment::codebook
                                                                : nullptr;
    if (member == nullptr) continue;
    Moment& moment = moments[{key.name, key.part.substr(0, dot)}];
    moment.name = key.name;
    moment.moment = key.part.substr(0, dot);
    moment.*member = &tensor;
  }
  return moments;
}

}  // namespace

std::vector<MomentMisfit> find_misfits(const LogicalState& state) {
  std::vector<MomentMisfit> misfits;
  for (const auto& [key, moment] : quantised_moments(state)) {
    if (auto found = misfit_of(moment)) misfits.push_back(std::move(*found));
  }
  return misfits;
}

}  // namespace resumecheck
