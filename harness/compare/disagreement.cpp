// Ranks that should hold the same and do not. Which of them is right says little; what all of them
// together hold often says what was left out between them.
#include <algorithm>

#include "harness/compare/diagnosis.h"
#include "harness/compare/element.h"
#include "harness/compare/run_state_hypotheses.h"

namespace resumecheck {
namespace {

// The largest of what the ranks hold is right, element by element.
Fit amax_not_reduced(const TensorKey& key, const std::vector<RankState>& ranks,
                     const LogicalTensor* wanted) {
  const std::int64_t count = element_count(wanted->shape);
  std::vector<std::uint64_t> largest(static_cast<std::size_t>(count));
  std::vector<bool> disagreed(largest.size());
  bool first = true;
  for (const RankState& rank : ranks) {
    for (const Piece& piece : rank.pieces) {
      if (piece.key != key || piece.box != Box::whole(wanted->shape)) continue;
      for (std::int64_t i = 0; i < count; ++i) {  // amaxes are not negative: ordered as their bits
        const auto at = static_cast<std::size_t>(i);
        const std::uint64_t bits = load_bits(piece.bytes.data() + i * 4, Dtype::f32);
        disagreed[at] = disagreed[at] || (!first && bits != largest[at]);
        largest[at] = std::max(largest[at], bits);
      }
      first = false;
    }
  }
  Fit fit{"amax not reduced", 0, 0, "the largest of the ranks' is right"};
  bool right = true;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool same = largest[at] == load_bits(wanted->bytes.data() + i * 4, Dtype::f32);
    right = right && same;
    fit.of += disagreed[at] ? 1 : 0;
    fit.fits += disagreed[at] && same ? 1 : 0;
  }
  if (!right) fit.fits = 0;
  return fit;
}

Fit norm_of_local_shards(const TensorKey& key, const std::vector<RankState>& ranks,
                         const LogicalTensor* wanted) {
  std::vector<double> norms;
  for (const RankState& rank : ranks) {
    for (const Piece& piece : rank.pieces) {
      if (piece.key != key || piece.bytes.size() != size_of(piece.dtype)) continue;
      norms.push_back(value_of(load_bits(piece.bytes.data(), piece.dtype), piece.dtype));
    }
  }
  const double whole = value_of(load_bits(wanted->bytes.data(), wanted->dtype), wanted->dtype);
  return {"norm of local shards", are_norms_of_shards(norms, whole) ? 1 : 0, 1,
          "the ranks' squares are all of the whole's"};
}

}  // namespace

Diagnosis diagnose_disagreement(const TensorKey& key, const std::vector<RankState>& ranks,
                                const LogicalState& want) {
  Diagnosis diagnosis;
  const LogicalTensor* wanted = find(want, key);
  if (wanted == nullptr || wanted->dtype != Dtype::f32) return diagnosis;
  const bool of_amaxes = selects("fp8.amax_history", key.part);
  if (!of_amaxes && key.part != "grad_norm") return diagnosis;
  const Fit fit =
      of_amaxes ? amax_not_reduced(key, ranks, wanted) : norm_of_local_shards(key, ranks, wanted);
  if (fit.fits > 0) {
    diagnosis.fits.push_back(fit);
  } else {
    diagnosis.does_not_fit.push_back(fit.name);
  }
  return diagnosis;
}

}  // namespace resumecheck
