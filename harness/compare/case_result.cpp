#include "harness/compare/case_result.h"

#include <algorithm>
#include <array>

namespace resumecheck {

std::string_view name_of(Verdict verdict) {
  static constexpr std::array<std::string_view, 8> kNames = {"PASS",  "FAIL", "VACUOUS", "XFAIL",
                                                             "XPASS", "SKIP", "ERROR",   "TIMEOUT"};
  return kNames.at(static_cast<std::size_t>(verdict));
}

bool unexpected(Verdict verdict) {
  return verdict == Verdict::fail || verdict == Verdict::vacuous || verdict == Verdict::xpass;
}

int exit_code(const std::vector<Verdict>& verdicts) {
  const auto is_unfinished = [](Verdict verdict) {
    return verdict == Verdict::error || verdict == Verdict::timeout;
  };
  const auto is_skip = [](Verdict verdict) { return verdict == Verdict::skip; };
  if (verdicts.empty()) return 2;
  if (std::any_of(verdicts.begin(), verdicts.end(), unexpected)) return 1;
  if (std::any_of(verdicts.begin(), verdicts.end(), is_unfinished)) return 3;
  return std::all_of(verdicts.begin(), verdicts.end(), is_skip) ? 77 : 0;
}

}  // namespace resumecheck
