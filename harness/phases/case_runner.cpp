#include "harness/phases/case_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "harness/phases/checkpoint_guard.h"
#include "harness/phases/fresh_start.h"
#include "harness/phases/interruption.h"
#include "harness/phases/judgement.h"
#include "harness/phases/process.h"
#include "harness/phases/rank_servers.h"
#include "harness/state/digest.h"
#include "harness/state/error.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kLeastSpace = 32 << 10;      // bytes
constexpr std::uintmax_t kLargestArtifact = 1 << 20;  // bytes of one file

// Who runs a phase: native programs, or the servers of one environment and adapter.
struct Host {
  std::string adapter;
  std::optional<Environment> environment;
  std::string key() const {
    return environment ? adapter + "@" + environment->name : std::string();
  }
};

Host save_host(const Case& c) { return {c.adapter, c.save_env}; }
Host load_host(const Case& c) { return {c.adapter, c.load_env}; }

struct SaveRun {
  fs::path folder;
  PhaseRequest request;
  PhaseOutcome outcome;
  std::optional<PhaseOutcome> cold;  // of the same run once more, freshly started
  CheckpointGuard guard;
  std::string problem;  // the harness could not run it
  bool done = false;
  std::size_t cases_left = 0;
};

void remove_quietly(const fs::path& folder) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

std::string seen(const CaseResult& result) {
  if (result.verdict == Verdict::pass || result.verdict == Verdict::xpass) return "a pass";
  if (!result.reason.empty()) return fmt::format("{} ({})", name_of(result.verdict), result.reason);
  return fmt::format("'{}: {}'", result.failed_at, result.symptom);
}

class CaseRunner {
 public:
  CaseRunner(const std::vector<Case>& cases, const CaseRunOptions& options,
             const std::function<void(const CaseResult&)>& on_result)
      : options_(options), on_result_(on_result) {
    for (const Case& c : cases) {
      pending_.insert(&c);
      ++saves_[c.save_key()].cases_left;
      for (const auto& [host, mesh] :
           {std::make_pair(save_host(c), c.from), std::make_pair(load_host(c), c.onto),
            std::make_pair(load_host(c), c.scenario->settings.resumes > 1 ? c.from : c.onto)}) {
        int& world = worlds_[host.key()];
        world = std::max(world, mesh.world());
      }
    }
  }

  void run() {
    while (!pending_.empty()) run_under(next_host());
    stop_servers();
    std::error_code ignored;
    fs::remove(options_.work, ignored);  // only where nothing is kept in it
    if (wrong_code_) throw Error(*wrong_code_);
  }

 private:
  bool saved(const Case& c) { return saves_[c.save_key()].done; }
  const Case* find_pending(const std::function<bool(const Case&)>& wanted);
  Host next_host();
  void run_under(const Host& host);
  void run_save(const Case& c);
  void finish(const Case& c);
  CaseResult result_for(const Case& c, SaveRun& save);
  CaseResult resume(const Case& c, SaveRun& save, const fs::path& folder, bool cold);
  CaseResult confirm_cold(const Case& c, SaveRun& save, const CaseResult& first);
  PhaseOutcome run_phase(const Host& host, const PhaseRequest& request, bool cold);
  std::vector<std::string> fresh_program(const Host& host) const;
  double limit_of(const Case& c) const;  // seconds of one phase
  fs::path server_program() const {
    return options_.root / "harness/adapters/python/rank_server.py";
  }
  void stop_servers() { servers_.reset(); }
  void note_wrong_code(const Error& problem) {
    if (problem.kind() == Error::Kind::usage && !wrong_code_) wrong_code_ = problem;
  }
  fs::path artifacts(const Case& c) const { return options_.artifacts / c.slug(); }
  fs::path resume_folder(const Case& c) const { return options_.work / c.slug(); }
  void keep_artifacts(const Case& c, const SaveRun& save, CaseResult& result);

  const CaseRunOptions& options_;
  const std::function<void(const CaseResult&)>& on_result_;
  std::set<const Case*> pending_;  // in the order given, as the cases lie in one vector
  std::map<std::string, std::string> confirmed_by_;  // claim -> the case that was started fresh
  std::map<std::string, SaveRun> saves_;
  std::map<std::string, int> worlds_;  // host -> ranks of its largest mesh
  std::unique_ptr<RankServers> servers_;
  std::string servers_of_;
  std::optional<Error> wrong_code_;  // of a scenario: thrown when the other cases are done
};

// A rank writes where the harness told it to: that there is no room is not the framework's fault.
// One that found no room for its record either is known by what is left there.
std::optional<std::string> storage_problem(const PhaseOutcome& outcome, const fs::path& work) {
  if (outcome.ok()) return std::nullopt;
  std::error_code unknown;
  const fs::space_info space = fs::space(work, unknown);
  if (!unknown && space.available < kLeastSpace) return "no space left on the device";
  for (const RankEnd& end : outcome.ranks) {
    if (!end.record || !end.record->exception) continue;
    for (const int reason : {ENOSPC, EDQUOT, EFBIG}) {
      const char* words = std::strerror(reason);
      if (end.record->exception->message.find(words) != std::string::npos) {
        return fmt::format("rank {}: {}", end.rank, joined_lines(end.record->exception->message));
      }
    }
  }
  return std::nullopt;
}

// Code that cannot even be read is the author's mistake, as a misspelt key of the document is: no
// framework has failed, and every case of that file would end in the same way.
void throw_where_the_code_is_wrong(const PhaseOutcome& outcome) {
  for (const RankEnd& end : outcome.ranks) {
    if (!end.record || !end.record->exception) continue;
    const bool before_building =
        end.record->phase == "save_run step 0" || end.record->phase == "load";
    if (!before_building || end.record->exception->type != "ScenarioError") continue;
    throw Error(Error::Kind::usage, {}, joined_lines(end.record->exception->message),
                "mend the code of the scenario");
  }
}

// ---- one phase -----------------------------------------------------------------------------

std::vector<std::string> CaseRunner::fresh_program(const Host& host) const {
  if (host.environment) {
    return {host.environment->python.string(), server_program().string(), "--once"};
  }
  if (!fs::exists(options_.native_program)) {
    throw Error(Error::Kind::harness, options_.native_program.string(), "does not exist",
                "build the target resumecheck-mpi");
  }
  return {options_.native_program.string(), "--phase"};
}

PhaseOutcome CaseRunner::run_phase(const Host& host, const PhaseRequest& request, bool cold) {
  PhaseOutcome outcome;
  if (cold || options_.cold || !host.environment) {
    FreshStart start;
    start.launcher = options_.launcher;
    start.program = fresh_program(host);
    start.start_limit = options_.start_limit;
    outcome = run_fresh(start, request);
  } else {
    if (!servers_ || servers_of_ != host.key()) {
      stop_servers();
      RankServerSetup setup;
      setup.launcher = options_.launcher;
      setup.program = {host.environment->python.string(), server_program().string()};
      setup.adapter = host.adapter;
      setup.world = worlds_[host.key()];
      setup.scratch =
          options_.work / ("servers-" + digest(std::string_view(host.key())).substr(0, 8));
      setup.start_limit = options_.start_limit;
      servers_ = std::make_unique<RankServers>(setup);
      servers_of_ = host.key();
    }
    outcome = servers_->run(request);
  }
  throw_where_the_code_is_wrong(outcome);
  if (const auto problem = storage_problem(outcome, options_.work)) {
    outcome.launch_problem =
        fmt::format("{}: {}; free some space, or give another folder with --out",
                    options_.work.string(), *problem);
  }
  if (request.settings.save_format == "state_dict") outcome.process = "same";
  if (host.environment) {
    const bool framework = !adapter_declaration(host.adapter).package.empty();
    outcome.transport = framework ? "gloo" : "none";
  }
  return outcome;
}

// ---- one case ------------------------------------------------------------------------------

// A framework that compiles its steps works for many seconds on each kind of parameter, more on a
// busy machine, before its first step is taken: that is no hang.
constexpr double kCompiling = 5;

double CaseRunner::limit_of(const Case& c) const {
  return options_.limit_seconds * (compiles(c) ? kCompiling : 1);
}

void CaseRunner::run_save(const Case& c) {
  SaveRun& save = saves_[c.save_key()];
  save.done = true;
  save.folder = options_.work / ("save-" + digest(std::string_view(c.save_key())).substr(0, 12));
  remove_quietly(save.folder);
  try {
    save.request = save_run_request(c, save.folder);
    save.request.limit_seconds = limit_of(c);
    save.outcome = run_phase(save_host(c), save.request, false);
    if (!save.outcome.ok()) return;
    damage_checkpoint(save.request.checkpoint, c.scenario->faults);
    save.guard = CheckpointGuard(save.request.checkpoint);
  } catch (const Error& problem) {
    note_wrong_code(problem);
    save.problem = problem.what();
  } catch (const fs::filesystem_error& problem) {
    save.problem = problem.what();
  }
}

CaseResult CaseRunner::resume(const Case& c, SaveRun& save, const fs::path& folder, bool cold) {
  Phases phases(save.request, resume_run_requests(c, save.folder, folder));
  phases.limit(limit_of(c));
  phases.save = save.outcome;
  if (save.outcome.ok()) {
    remove_quietly(folder);
    phases.run_resumes(
        [&](const PhaseRequest& request) { return run_phase(load_host(c), request, cold); });
  }
  save.outcome.seconds = 0;  // counted once
  CaseResult result = judge(c, phases, options_.root, artifacts(c));
  if (save.outcome.ok()) save.guard.judge(result);
  return result;
}

// A fork shares what its server once imported, so a known defect is believed only when a fresh
// start of the phase that failed shows it too: once a run for each entry of a scenario, under each
// pair of environments, in the same words.
CaseResult CaseRunner::confirm_cold(const Case& c, SaveRun& save, const CaseResult& first) {
  CaseResult again;
  const fs::path folder = resume_folder(c).string() + "-cold";
  if (save.outcome.ok()) {
    again = resume(c, save, folder, true);
  } else {
    if (!save.cold) {
      PhaseRequest request = save_run_request(c, folder);
      request.limit_seconds = limit_of(c);
      save.cold = run_phase(save_host(c), request, true);
    }
    Phases phases(save.request, resume_run_requests(c, save.folder, folder));
    phases.save = *save.cold;
    if (save.cold->ok()) phases.save.launch_problem = "a fresh start of it went well";
    again = judge(c, phases, options_.root, artifacts(c));
    save.cold->seconds = 0;
  }
  if (!options_.keep) remove_quietly(folder);
  CaseResult result = first;
  result.seconds += again.seconds;
  if (again.verdict == Verdict::xfail) {
    result.notes.push_back("confirmed cold");
    return result;
  }
  result.verdict = Verdict::fail;
  result.known_broken.clear();
  result.notes.push_back(
      fmt::format("not confirmed cold: forked {}, freshly started {}", seen(first), seen(again)));
  return result;
}

// What a cold confirmation confirms.
std::string claim(const Case& c, const CaseResult& result) {
  const KnownBroken* entry = known_broken(c);
  return fmt::format("{} {} {} {} {}", entry == nullptr ? "" : entry->where, save_host(c).key(),
                     load_host(c).key(), result.failed_at, result.symptom);
}

CaseResult CaseRunner::result_for(const Case& c, SaveRun& save) {
  CaseResult result = result_of(c);
  try {
    if (!save.problem.empty()) {
      result.reason = "save_run: " + save.problem;
      return result;
    }
    result = resume(c, save, resume_folder(c), false);
    if (result.verdict == Verdict::xfail && load_host(c).environment && !options_.cold &&
        result.process != "new") {
      std::string& by = confirmed_by_[claim(c, result)];
      if (by.empty()) {
        result = confirm_cold(c, save, result);
        if (result.verdict == Verdict::xfail) by = c.name();
      } else {
        result.notes.push_back("confirmed cold by " + by);
      }
    }
  } catch (const Error& problem) {
    note_wrong_code(problem);
    result.verdict = Verdict::error;
    result.reason = problem.what();
  } catch (const fs::filesystem_error& problem) {
    result.verdict = Verdict::error;
    result.reason = problem.what();
  }
  return result;
}

// ---- what is kept --------------------------------------------------------------------------

void copy_records(const fs::path& records, const fs::path& onto) {
  std::error_code ignored;
  if (!fs::is_directory(records, ignored)) return;
  fs::create_directories(onto);
  for (const auto& entry : fs::directory_iterator(records)) {
    if (!entry.is_regular_file() || entry.path().filename() == "filestore") continue;
    if (entry.file_size() == 0 || entry.file_size() > kLargestArtifact) continue;
    fs::copy_file(entry.path(), onto / entry.path().filename(),
                  fs::copy_options::overwrite_existing);
  }
  const fs::path request = records.parent_path() / "request.json";
  if (fs::exists(request, ignored)) {
    fs::copy_file(request, onto / "request.json", fs::copy_options::overwrite_existing);
  }
}

void CaseRunner::keep_artifacts(const Case& c, const SaveRun& save, CaseResult& result) {
  const fs::path folder = artifacts(c);
  if (result.verdict == Verdict::pass || result.verdict == Verdict::skip) return;
  try {
    copy_records(save.request.records, folder / "save_run");
    copy_records(resume_folder(c) / "records", folder / "resume_run");
  } catch (const fs::filesystem_error& problem) {
    result.notes.push_back(fmt::format("artifacts are incomplete: {}", problem.what()));
  }
  std::error_code ignored;
  if (fs::exists(folder, ignored)) result.artifacts = folder.string();
}

void CaseRunner::finish(const Case& c) {
  SaveRun& save = saves_[c.save_key()];
  remove_quietly(artifacts(c));
  CaseResult result = result_for(c, save);
  keep_artifacts(c, save, result);
  pending_.erase(&c);
  --save.cases_left;
  if (!options_.keep) {
    remove_quietly(resume_folder(c));
    if (save.cases_left == 0) remove_quietly(save.folder);
  }
  on_result_(result);
}

// ---- the order -----------------------------------------------------------------------------

const Case* CaseRunner::find_pending(const std::function<bool(const Case&)>& wanted) {
  const auto found =
      std::find_if(pending_.begin(), pending_.end(), [&](const Case* c) { return wanted(*c); });
  return found == pending_.end() ? nullptr : *found;
}

// Of the first case that is left: who saves, or who loads where that has been done.
Host CaseRunner::next_host() {
  const Case& c = **pending_.begin();
  return saved(c) ? load_host(c) : save_host(c);
}

// All that can be done while this host's servers are up: its saves, each followed by the resumes
// that it can run itself, and the resumes of what others have saved.
void CaseRunner::run_under(const Host& host) {
  const std::string key = host.key();
  while (true) {
    throw_if_interrupted();
    if (const Case* c = find_pending(
            [&](const Case& one) { return saved(one) && load_host(one).key() == key; })) {
      finish(*c);
    } else if (const Case* next = find_pending(
                   [&](const Case& one) { return !saved(one) && save_host(one).key() == key; })) {
      run_save(*next);
    } else {
      return;
    }
  }
}

}  // namespace

void run_cases(const std::vector<Case>& cases, const CaseRunOptions& options,
               const std::function<void(const CaseResult&)>& on_result) {
  adopt_orphans();
  CaseRunner(cases, options, on_result).run();
}

}  // namespace resumecheck
