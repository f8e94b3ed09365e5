#include "harness/phases/rank_servers.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "harness/phases/interruption.h"
#include "harness/phases/process.h"
#include "harness/phases/rank_files.h"
#include "harness/state/error.h"
#include "harness/state/file.h"

namespace resumecheck {
namespace {

using Clock = std::chrono::steady_clock;
using How = RankEnd::How;
using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr double kGlance = 0.005;  // seconds between looks at the scratch folder
constexpr double kStopGrace = 5;
constexpr double kLauncherGrace = 2;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

bool is_there(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file, ignored);
}

Json read_json(const fs::path& file) {
  try {
    return Json::parse(read_file(file));
  } catch (const Json::exception& problem) {
    throw Error(Error::Kind::harness, file.string(), problem.what());
  }
}

How how_of(const std::string& word) {
  if (word == "finished") return How::finished;
  if (word == "killed") return How::killed;
  if (word == "hung") return How::hung;
  return word == "cancelled" ? How::cancelled : How::missing;
}

}  // namespace

RankServers::RankServers(RankServerSetup setup) : setup_(std::move(setup)) {}

RankServers::~RankServers() {
  try {
    stop();
  } catch (...) {  // ended by ~Process then
  }
}

fs::path RankServers::done_file(int rank) const {
  return scratch_ / fmt::format("done_{}_rank{}.json", sequence_, rank);
}

std::string RankServers::died(const std::string& when) {
  process_->end(0);
  const std::string problem =
      fmt::format("the rank servers of {} {} {}{}", setup_.adapter, to_text(*process_->ended()),
                  when, why_it_ended(process_->output()));
  process_.reset();
  return problem;
}

std::string RankServers::wait_for_ready() {
  const Clock::time_point began = Clock::now();
  for (int rank = 0; rank < setup_.world; ++rank) {
    const fs::path file = scratch_ / fmt::format("ready_rank{}.json", rank);
    while (!is_there(file)) {
      if (process_->ended()) return died("while starting");
      if (seconds_since(began) > setup_.start_limit) {
        return died(fmt::format("by force, not ready after {} s", setup_.start_limit));
      }
      interruptible_sleep(kGlance);
    }
    const Json ready = read_json(file);
    if (ready.contains("error")) {
      cannot_start_ = fmt::format("{} cannot be imported: {}", setup_.adapter,
                                  ready["error"].get<std::string>());
      process_->end(kStopGrace);
      process_.reset();
      return cannot_start_;
    }
    versions_ = ready.value("versions", versions_);
    stand_ins_ = ready.value("stand_ins", stand_ins_);
  }
  return "";
}

std::string RankServers::start() {
  if (!cannot_start_.empty()) return cannot_start_;
  if (process_ && process_->ended()) process_.reset();
  if (process_) return "";
  sequence_ = 0;
  scratch_ = fs::absolute(setup_.scratch / std::to_string(++generation_));
  fs::remove_all(scratch_);
  fs::create_directories(scratch_);
  std::vector<std::string> program = setup_.program;
  program.insert(program.end(), {"--scratch", scratch_.string(), "--adapter", setup_.adapter});
  process_ = std::make_unique<Process>(setup_.launcher.command(setup_.world, program),
                                       setup_.launcher.environment());
  return wait_for_ready();
}

RankEnd RankServers::rank_end(const PhaseRequest& request, int rank, FileTime began) const {
  RankEnd end = read_rank_end(request.records, rank, began);
  const Json done = read_json(done_file(rank));
  end.how = how_of(done.value("how", ""));
  end.signal = done.value("signal", 0);
  end.exit_status = done.value("exit_status", 0);
  if (!end.record) end.ended_after = seconds_until(done_file(rank), began);
  return end;
}

// Until every rank's server has told how its rank ended. Once one has failed the others, which may
// wait for it for ever, are given a moment to fail by themselves and are then ended.
std::string RankServers::await(const PhaseRequest& request) {
  const Clock::time_point began = Clock::now();
  const int world = request.mesh.world();
  std::vector<bool> done(world, false);
  std::optional<Clock::time_point> failed;
  bool cancelled = false;
  for (int left = world; left > 0;) {
    for (int rank = 0; rank < world; ++rank) {
      if (done[rank] || !is_there(done_file(rank))) continue;
      done[rank] = true;
      --left;
      const RankEnd end = rank_end(request, rank, FileTime::clock::now());
      const bool well = end.how == How::finished && end.record && end.record->ok;
      if (!well && !failed) failed = Clock::now();
    }
    if (left == 0) break;
    if (failed && !cancelled && seconds_since(*failed) > setup_.grace) {
      write_file(scratch_ / fmt::format("cancel_{}", sequence_), std::string_view());
      cancelled = true;
    }
    const double past = failed ? seconds_since(*failed) - setup_.grace
                               : seconds_since(began) - request.limit_seconds;
    if (past > setup_.answer_limit) return died("by force, as they no longer answered");
    if (process_->ended()) return died("during the phase");
    interruptible_sleep(kGlance);
  }
  return "";
}

PhaseOutcome RankServers::run(const PhaseRequest& request) {
  PhaseOutcome outcome;
  outcome.process = "forked";
  outcome.launch_problem = start();
  outcome.versions = versions_;
  outcome.stand_ins = stand_ins_;
  if (!outcome.launch_problem.empty()) return outcome;
  const fs::path file = prepare_phase(request);
  const Clock::time_point began = Clock::now();
  const FileTime began_file_time = FileTime::clock::now();
  const Json message = {{"schema", 1},
                        {"sequence", ++sequence_},
                        {"world", request.mesh.world()},
                        {"limit_s", request.limit_seconds},
                        {"request", file.string()}};
  const std::string text = message.dump();
  write_file(scratch_ / fmt::format("request_{}.json", sequence_), {std::as_bytes(std::span(text))},
             Durability::survives_the_process);
  outcome.launch_problem = await(request);
  outcome.seconds = seconds_since(began);
  if (!outcome.launch_problem.empty()) return outcome;
  for (int rank = 0; rank < request.mesh.world(); ++rank) {
    outcome.ranks.push_back(rank_end(request, rank, began_file_time));
    const std::string flood =
        flood_note(fmt::format("rank {}", rank), bytes_left_out(request.records, rank));
    if (!flood.empty()) outcome.notes.push_back(request.phase + ": " + flood);
    if (read_json(done_file(rank)).value("process", "forked") == "new") outcome.process = "new";
  }
  return outcome;
}

void RankServers::stop() {
  if (!process_) return;
  if (!process_->ended()) {
    write_file(scratch_ / "stop", std::string_view());
    const Clock::time_point told = Clock::now();
    const double grace = interruption_requested() ? kLauncherGrace : kStopGrace;
    while (!process_->ended() && seconds_since(told) < grace) {
      const timespec moment = {0, 5000000};
      nanosleep(&moment, nullptr);
    }
    process_->end(kLauncherGrace);
  }
  process_.reset();
  std::error_code ignored;  // the next run empties the whole work folder
  fs::remove_all(setup_.scratch, ignored);
}

}  // namespace resumecheck
