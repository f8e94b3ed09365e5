// One rank's failure makes the others fail too: they lose their connection, wait for ever, or are
// ended by the launcher. The symptom must be the first cause's; taking rank 0's, or the last
// message printed, blames whoever was only waiting.
#include "harness/phases/phase_outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <optional>
#include <tuple>

#include "harness/phases/process.h"

namespace resumecheck {
namespace {

bool ended_well(const RankEnd& end) {
  return end.how == RankEnd::How::finished && end.exit_status == 0 && end.record && end.record->ok;
}

// What a rank says when another one has gone away: true, but not the cause.
bool speaks_of_another_rank(const RankEnd& end) {
  static constexpr std::array<std::string_view, 6> signs = {
      "Connection closed by peer", "Connection reset by peer", "Broken pipe",
      "Connection refused",        "remote process exited",    "Socket closed"};
  if (!end.record || !end.record->exception) return false;
  if (end.record->exception->type == "PeerFailed") return true;
  const std::string& message = end.record->exception->message;
  return std::any_of(signs.begin(), signs.end(), [&](std::string_view sign) {
    return message.find(sign) != std::string::npos;
  });
}

// Of a script that is wrong, or a machine that is too small: nobody refuses a checkpoint with
// these.
bool is_slip(const std::string& type) {
  static constexpr std::array<std::string_view, 12> slips = {
      "NameError",     "UnboundLocalError", "AttributeError",    "ImportError",
      "SyntaxError",   "MemoryError",       "OSError",           "ModuleNotFoundError",
      "ScenarioError", "PermissionError",   "KeyboardInterrupt", "OutOfMemoryError"};
  return std::find(slips.begin(), slips.end(), type) != slips.end();
}

// The step a phase's name ends with; -1 where it has none.
std::int64_t step_in(const std::string& phase) {
  const std::size_t at = phase.rfind("step ");
  return at == std::string::npos ? -1 : std::atoll(phase.c_str() + at + 5);
}

// Of ranks that hang, those in a collective wait for one that never came to it, so the one that is
// furthest behind comes first.
auto order_of(const RankEnd& end) {
  const bool hung = end.how == RankEnd::How::hung;
  const int kind = hung ? 3 : speaks_of_another_rank(end) ? 2 : end.how == RankEnd::How::missing;
  return std::make_tuple(kind, hung ? static_cast<double>(step_in(end.progress)) : end.ended_after,
                         end.rank);
}

const RankEnd* first_failure(const std::vector<RankEnd>& ranks) {
  const RankEnd* first = nullptr;
  for (const RankEnd& end : ranks) {
    if (ended_well(end)) continue;
    if (end.how == RankEnd::How::cancelled && !(end.record && end.record->exception)) continue;
    if (first == nullptr || order_of(end) < order_of(*first)) first = &end;
  }
  return first;
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? std::string("unknown") : fmt::format("SIG{}", name);
}

std::string where(const RankEnd& end) {
  if (end.record && !end.record->phase.empty()) return end.record->phase;
  return end.progress;
}

std::string what(const RankEnd& end) {
  if (end.record && end.record->exception) {
    const ExitRecord::Exception& raised = *end.record->exception;  // "" of a bare assert, say
    return joined_lines(raised.message.empty() ? raised.type : raised.message);
  }
  switch (end.how) {
    case RankEnd::How::killed:
      return fmt::format("rank {} died: signal {} ({})", end.rank, end.signal,
                         signal_name(end.signal));
    case RankEnd::How::hung:
      return fmt::format("hang in {}", end.progress.empty() ? "start" : end.progress);
    case RankEnd::How::finished:
      if (end.record && !end.record->ok) return fmt::format("rank {} reports failure", end.rank);
      return fmt::format(
          "rank {} exited with status {} {}", end.rank, end.exit_status,
          end.record ? "after it had reported that all is well" : "before it finished");
    case RankEnd::How::missing:
      return fmt::format("rank {} vanished without a record", end.rank);
    case RankEnd::How::cancelled:
      break;
  }
  return fmt::format("rank {} was ended", end.rank);
}

}  // namespace

bool PhaseOutcome::ok() const {
  return launch_problem.empty() && !harness_timeout && !ranks.empty() &&
         std::all_of(ranks.begin(), ranks.end(), ended_well);
}

std::string PhaseOutcome::failed_at() const {
  const RankEnd* first = first_failure(ranks);
  return first == nullptr ? "" : where(*first);
}

std::string PhaseOutcome::symptom() const {
  const RankEnd* first = first_failure(ranks);
  return first == nullptr ? "" : what(*first);
}

bool PhaseOutcome::is_refusal() const {
  const RankEnd* first = first_failure(ranks);
  if (first == nullptr || !first->record || !first->record->exception) return false;
  return !first->record->phase.empty() && !speaks_of_another_rank(*first) &&
         !is_slip(first->record->exception->type);
}

}  // namespace resumecheck
