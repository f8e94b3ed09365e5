#include "harness/phases/fresh_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <regex>
#include <set>

#include "harness/phases/interruption.h"
#include "harness/phases/process.h"
#include "harness/phases/rank_files.h"
#include "harness/state/error.h"
#include "harness/state/file.h"

namespace resumecheck {
namespace {

using Clock = std::chrono::steady_clock;
using How = RankEnd::How;

constexpr double kGlance = 0.02;        // seconds between looks at the records
constexpr double kStacksSeconds = 1.0;  // for hung ranks to write their stacks
constexpr double kLauncherGrace = 2.0;  // for a launcher to end its ranks itself

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

int signal_by_description(const std::string& text) {
  for (int number = 1; number < 32; ++number) {
    const char* description = sigdescr_np(number);
    if (description != nullptr && text == description) return number;
  }
  return 0;
}

// Ranks that have a process on this machine, by the variables of their launcher.
std::set<int> living_ranks(const Process& process) {
  std::set<int> ranks;
  for (const pid_t descendant : process.descendants()) {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
      const std::string value = variable_of(descendant, name);
      if (!value.empty()) ranks.insert(std::atoi(value.c_str()));
    }
  }
  return ranks;
}

// Why the harness stopped waiting.
enum class Stop { ended, never_began, time_limit, others_waited, launcher_lingers };

class Watch {
 public:
  Watch(const FreshStart& start, const PhaseRequest& request, Process& process)
      : start_(start), request_(request), process_(process) {}

  Stop until_stop() {
    while (!process_.wait(kGlance)) {
      if (!began_ && any_progress(request_)) began_ = Clock::now();
      if (!failed_ && began_ && any_failure(request_)) failed_ = Clock::now();
      if (failed_ && seconds_since(*failed_) > start_.grace) return Stop::others_waited;
      if (began_ && seconds_since(*began_) > request_.limit_seconds) return Stop::time_limit;
      if (!began_ && seconds_since(launched_) > start_.start_limit) return Stop::never_began;
      if (ranks_are_gone_for(start_.linger_limit)) return Stop::launcher_lingers;
    }
    return Stop::ended;
  }

 private:
  // Looked at a few times in that time, as a look reads all of /proc. Ranks on other machines are
  // never seen, and so never missed.
  bool ranks_are_gone_for(double limit) {
    if (seconds_since(looked_) < limit / 8) return false;
    looked_ = Clock::now();
    if (!living_ranks(process_).empty()) {
      seen_ = looked_;
      return false;
    }
    return seen_ && seconds_since(*seen_) > limit;
  }

  const FreshStart& start_;
  const PhaseRequest& request_;
  Process& process_;
  Clock::time_point launched_ = Clock::now();
  Clock::time_point looked_ = launched_;
  std::optional<Clock::time_point> began_, failed_;
  std::optional<Clock::time_point> seen_;  // when a rank of this machine was last seen alive
};

// Launchers hand SIGUSR1 on to their ranks, which then write down where they are.
void ask_for_stacks(Process& process) {
  process.signal(SIGUSR1);
  process.wait(kStacksSeconds);
}

// For ranks that left no record, and those that died after they had written that all was well.
void tell_how(std::vector<RankEnd>& ranks, Stop stop, const std::set<int>& living,
              const std::vector<LauncherReport>& reports, const ProcessEnd& end, double seconds) {
  for (RankEnd& rank : ranks) {
    const auto report = std::find_if(reports.begin(), reports.end(),
                                     [&](const auto& one) { return one.rank == rank.rank; });
    if (rank.record) {
      if (report == reports.end() || !rank.record->ok) continue;
      if (report->signal != 0) rank.how = How::killed;
      rank.signal = report->signal;
      rank.exit_status = report->exit_status;
      continue;
    }
    rank.ended_after = seconds;
    if (report != reports.end()) {
      rank.how = report->signal != 0 ? How::killed : How::finished;
      rank.signal = report->signal;
      rank.exit_status = report->exit_status;
    } else if (stop == Stop::others_waited || !reports.empty()) {
      rank.how = How::cancelled;
    } else if (stop == Stop::time_limit) {
      rank.how = living.empty() || living.count(rank.rank) != 0 ? How::hung : How::missing;
    } else if (end.well()) {
      rank.how = How::finished;
    }
  }
}

}  // namespace

std::vector<LauncherReport> read_launcher_output(const std::string& output) {
  static const std::regex killed(
      R"(process rank (\d+) with PID \d+ on node \S+ exited on signal (\d+))");
  static const std::regex exited(R"(Process name: \[\[\d+,\d+\],(\d+)\]\s+Exit code:\s+(\d+))");
  static const std::regex left(
      R"(process rank (\d+) with PID \d+ on\s+node \S+ exiting (improperly))");
  static const std::regex slurm_exited(R"(task (\d+): Exited with exit code (\d+))");
  static const std::regex slurm_killed(R"(task (\d+): ([A-Z][a-z ]+))");
  std::vector<LauncherReport> reports;
  const auto each = [&](const std::regex& pattern, const auto& visit) {
    for (std::sregex_iterator it(output.begin(), output.end(), pattern), end; it != end; ++it) {
      visit(std::stoi((*it)[1]), (*it)[2].str());
    }
  };
  each(killed, [&](int rank, const auto& text) { reports.push_back({rank, std::stoi(text), 0}); });
  each(exited, [&](int rank, const auto& text) { reports.push_back({rank, 0, std::stoi(text)}); });
  each(left, [&](int rank, const auto&) { reports.push_back({rank, 0, 0}); });
  each(slurm_exited, [&](int rank, const auto& text) {
    reports.push_back({rank, 0, std::stoi(text)});
  });
  each(slurm_killed, [&](int rank, const auto& text) {
    if (const int number = signal_by_description(text)) reports.push_back({rank, number, 0});
  });
  return reports;
}

PhaseOutcome run_fresh(const FreshStart& start, const PhaseRequest& request) {
  const std::filesystem::path file = prepare_phase(request);
  std::vector<std::string> program = start.program;
  program.push_back(file.string());
  const int world = request.mesh.world();
  const Clock::time_point began = Clock::now();
  const FileTime began_file_time = FileTime::clock::now();
  Process process(start.launcher.command(world, program), start.launcher.environment());
  const Stop stop = Watch(start, request, process).until_stop();
  std::set<int> living;
  if (stop == Stop::time_limit || stop == Stop::never_began) {
    living = living_ranks(process);
    ask_for_stacks(process);
  }
  process.end(kLauncherGrace);
  const ProcessEnd end = *process.ended();
  const std::string output = process.output();
  write_file(request.records / "launcher_output.txt", {std::as_bytes(std::span(output))},
             Durability::survives_the_process);

  PhaseOutcome outcome;
  outcome.seconds = seconds_since(began);
  const std::string flood = flood_note("its ranks", static_cast<double>(process.output_bytes()));
  if (!flood.empty()) outcome.notes.push_back(request.phase + ": " + flood);
  for (int rank = 0; rank < world; ++rank) {
    outcome.ranks.push_back(read_rank_end(request.records, rank, began_file_time));
    RankEnd& last = outcome.ranks.back();
    if (last.output_tail.empty() && !(last.record && last.record->ok)) {
      last.output_tail = last_lines(output, 20);
    }
  }
  tell_how(outcome.ranks, stop, living, read_launcher_output(output), end, outcome.seconds);
  if (!any_progress(request)) {
    if (stop == Stop::never_began) {
      outcome.harness_timeout = true;
    } else if (stop == Stop::launcher_lingers) {
      outcome.launch_problem =
          fmt::format("every rank was gone before it began, and {} still waited for them{}",
                      start.launcher.name(), why_it_ended(output));
    } else {
      outcome.launch_problem = fmt::format("{} {} before any rank began{}", start.launcher.name(),
                                           to_text(end), why_it_ended(output));
    }
  }
  return outcome;
}

}  // namespace resumecheck
