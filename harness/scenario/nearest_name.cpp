#include "harness/scenario/nearest_name.h"

#include <algorithm>
#include <numeric>

namespace resumecheck {
namespace {

// Levenshtein distance with two rows; names are short, and long texts are cut before.
std::size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<std::size_t> row(right.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < left.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < right.size(); ++j) {
      const std::size_t above = row[j + 1];
      const std::size_t replaced = diagonal + (left[i] == right[j] ? 0 : 1);
      row[j + 1] = std::min({above + 1, row[j] + 1, replaced});
      diagonal = above;
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view text,
                                        const std::vector<std::string>& candidates) {
  constexpr std::size_t longest_name = 200;
  std::optional<std::string> nearest;
  std::size_t fewest = 0;
  text = text.substr(0, longest_name);
  for (const std::string& candidate : candidates) {
    const std::string_view name = std::string_view(candidate).substr(0, longest_name);
    const std::size_t allowed = std::max<std::size_t>(2, name.size() / 3);
    const std::size_t difference =
        std::max(name.size(), text.size()) - std::min(name.size(), text.size());
    if (difference > allowed || text.empty()) continue;
    const std::size_t edits = edit_distance(text, name);
    if (edits > allowed || edits >= std::max(name.size(), text.size())) continue;
    if (!nearest || edits < fewest) {
      nearest = candidate;
      fewest = edits;
    }
  }
  return nearest;
}

std::string did_you_mean(std::string_view text, const std::vector<std::string>& candidates) {
  if (const auto nearest = nearest_name(text, candidates)) {
    return "did you mean '" + *nearest + "'?";
  }
  constexpr std::size_t most_listed = 16;
  std::string known;
  for (std::size_t i = 0; i < candidates.size() && i < most_listed; ++i) {
    known += (i == 0 ? "known: " : ", ") + candidates[i];
  }
  if (candidates.size() > most_listed) known += ", ...";
  return known;
}

}  // namespace resumecheck
