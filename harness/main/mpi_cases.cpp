#include "harness/main/mpi_cases.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "harness/adapters/reference/native_case.h"
#include "harness/adapters/reference/reference.h"
#include "harness/main/rank_devices.h"
#include "harness/main/rank_process.h"
#include "harness/main/watchdog.h"
#include "harness/phases/checkpoint_guard.h"
#include "harness/phases/fault.h"
#include "harness/phases/judgement.h"
#include "harness/ranks/merged_listener.h"
#include "harness/ranks/mpi_communicator.h"
#include "harness/report/outcome_table.h"
#include "harness/report/report.h"
#include "harness/scenario/names.h"
#include "harness/state/digest.h"
#include "harness/state/error.h"
#include "harness/state/file.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;

constexpr double kStacksNeed = 1.0;  // seconds for the ranks to write their stacks

int ranks_needed(const Case& c) { return std::max(c.from.world(), c.onto.world()); }

// Faults that end a process end the job with it; `resumecheck run` gives such a case jobs of its
// own.
bool ends_a_process(const std::string& fault) {
  return fault == "kill_rank" || fault == "hang_rank" || fault == "exit_early";
}

bool asks_for(const std::vector<std::string>& requirements, const std::string& name) {
  return std::find(requirements.begin(), requirements.end(), name) != requirements.end();
}

void say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  if (text.empty() || text.back() != '\n') std::fputc('\n', stdout);
  std::fflush(stdout);
}

bool wants_colour() { return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr; }

struct Process {
  pid_t pid = 0;
  char host[128] = {};
};

Process this_process() {
  Process process;
  process.pid = getpid();
  gethostname(process.host, sizeof process.host - 1);
  return process;
}

// Gone, or a zombie that its launcher has not collected yet.
bool is_dead(const Process& process) {
  if (std::strcmp(process.host, this_process().host) != 0) return false;
  if (kill(process.pid, 0) != 0 && errno == ESRCH) return true;
  std::ifstream file(fmt::format("/proc/{}/stat", process.pid));
  std::string stat;
  std::getline(file, stat);
  const std::size_t bracket = stat.rfind(')');
  return bracket != std::string::npos && bracket + 2 < stat.size() && stat[bracket + 2] == 'Z';
}

// Rank r of the first resume is process (r + 1) mod n, of the next one (r + 2) mod n, so that no
// process finds its own state again. stage: 0 for the save run.
int rank_of(int process, std::size_t stage, int processes) {
  return (process + processes - static_cast<int>(stage) % processes) % processes;
}
int process_of(int rank, std::size_t stage, int processes) {
  return (rank + static_cast<int>(stage)) % processes;
}

// One that the cases which save in the same way resume from.
struct SaveRun {
  bool done = false;
  fs::path folder;
  PhaseRequest request;
  PhaseOutcome outcome;
  CheckpointGuard guard;  // rank 0 only
};

class JobRun {
 public:
  JobRun(const MpiCasesArguments& arguments, std::vector<Case> cases, MpiJob& job);

  CaseResult run(std::size_t index);  // by all processes together
  int finish();                       // the one exit code
  void select(std::set<std::size_t> chosen) {
    selected_ = std::move(chosen);
    finished_.clear();
    saves_.clear();
  }
  const std::vector<Case>& cases() const { return cases_; }
  bool speaks() const { return world_.rank() == 0; }

 private:
  std::optional<std::string> why_skipped(const Case& c) const;
  void on_rank_zero(const std::function<void()>& work);
  CaseResult run_together(const Case& c);
  void run_save(const Case& c, SaveRun& save);
  bool is_needed(const std::string& save_key) const;  // by a case that is still to come
  PhaseOutcome run_phase(const PhaseRequest& request, std::size_t stage);
  CaseResult of_rank_zero(const CaseResult& mine);
  CaseResult finished(CaseResult result) const;
  void note(const CaseResult& result);

  void give_up(Watchdog::Reason reason);
  CaseResult cut_short(const Case& c, Watchdog::Reason reason) const;
  PhaseOutcome outcome_cut_short(const PhaseRequest& request, std::size_t stage,
                                 Watchdog::Reason reason) const;
  std::optional<int> dead_process() const;
  std::string command_to_continue() const;
  void report_rest(const std::string& why);
  int write_reports();

  const MpiCasesArguments& arguments_;
  std::vector<Case> cases_;
  MpiJob& job_;
  Communicator& world_;
  fs::path root_, out_;
  RankDevices devices_;
  std::vector<Process> processes_;
  std::unique_ptr<ResultsFile> file_;  // rank 0 only
  std::set<std::size_t> selected_, finished_;
  std::map<std::string, SaveRun> saves_;

  std::mutex mutex_;  // what the watchdog reads when the main thread hangs
  std::vector<CaseResult> results_;
  std::optional<std::size_t> running_;
  Phases phases_;
  std::optional<std::size_t> stage_;  // 0: the save run, 1: the first resume

  std::unique_ptr<Watchdog> watchdog_;  // last: it uses all of the above
};

JobRun::JobRun(const MpiCasesArguments& arguments, std::vector<Case> cases, MpiJob& job)
    : arguments_(arguments),
      cases_(std::move(cases)),
      job_(job),
      world_(job.world()),
      root_(project_root()),
      out_(fs::absolute(arguments.out)),
      devices_(world_, arguments.device) {
  const Process mine = this_process();
  for (const Bytes& bytes : world_.all_gather(std::as_bytes(std::span(&mine, 1)))) {
    Process process;
    std::memcpy(&process, bytes.data(), sizeof process);
    processes_.push_back(process);
  }
  on_rank_zero([this] {
    fs::create_directories(out_);
    file_ = std::make_unique<ResultsFile>(out_ / "results.jsonl", read_provenance(root_));
  });
  for (std::size_t i = 0; i < cases_.size(); ++i) selected_.insert(i);
  watchdog_ = std::make_unique<Watchdog>([this](Watchdog::Reason reason) { give_up(reason); });
}

// ---- one case ------------------------------------------------------------------------------

std::optional<std::string> JobRun::why_skipped(const Case& c) const {
  if (ranks_needed(c) > world_.size()) {
    return fmt::format("needs {} ranks, this job has {}", ranks_needed(c), world_.size());
  }
  if ((asks_for(c.scenario->requirements, "nccl") || asks_for(arguments_.required, "nccl")) &&
      !devices_.why_not_nccl().empty()) {
    return "needs nccl: " + devices_.why_not_nccl();
  }
  if (c.device == "cuda" && !devices_.why_not_cuda().empty()) {
    return "needs cuda: " + devices_.why_not_cuda();
  }
  for (const FaultSpec& fault : c.scenario->faults) {
    const auto& asked = arguments_.defects;
    const bool on_purpose = std::any_of(asked.begin(), asked.end(), [&](const std::string& text) {
      return parse_fault(text).name == fault.name;
    });
    if (ends_a_process(fault.name) && !on_purpose) {
      return fault.name + " would end this job with its rank; `resumecheck run` launches it alone";
    }
  }
  return why_not_runnable(c, "sh");  // the launcher has done its part already
}

// All processes come here; those that are a rank of the phase's mesh run it.
PhaseOutcome JobRun::run_phase(const PhaseRequest& request, std::size_t stage) {
  const int rank = rank_of(world_.rank(), stage, world_.size());
  const bool member = rank < request.mesh.world();
  on_rank_zero([&] { prepare_phase(request); });
  const FileTime began = FileTime::clock::now();
  {
    const std::scoped_lock lock(mutex_);
    stage_ = stage;
  }
  if (const auto ranks = job_.part(member, rank)) {
    write_stack_on_signal(request.records / fmt::format("stacks_rank{}.txt", rank));
    devices_.run_phase(request, *ranks);
  }
  world_.barrier();
  const PhaseOutcome outcome = outcome_of_records(request, began, "same", "mpi");
  const std::scoped_lock lock(mutex_);
  (stage == 0 ? phases_.save : phases_.resumes[stage - 1].outcome.emplace()) = outcome;
  stage_.reset();
  return outcome;
}

// What only rank 0 does, since files are made once; where it fails there, all of them know.
void JobRun::on_rank_zero(const std::function<void()>& work) {
  std::string problem;
  if (speaks()) {
    try {
      work();
    } catch (const std::exception& error) {
      problem = error.what();
      if (problem.empty()) problem = "unknown";
    }
  }
  const auto all = world_.all_gather(std::as_bytes(std::span(problem.data(), problem.size())));
  if (all[0].empty()) return;
  const std::string text(reinterpret_cast<const char*>(all[0].data()), all[0].size());
  throw Error(Error::Kind::harness, {}, text);
}

CaseResult JobRun::run_together(const Case& c) {
  const std::string key = c.save_key();
  SaveRun& save = saves_[key];
  const fs::path folder = out_ / "work" / c.slug();
  if (!save.done) {
    save.folder = out_ / "work" / ("save-" + digest(std::string_view(key)).substr(0, 12));
    save.request = save_run_request(c, save.folder);
  }
  Phases phases(save.request, resume_run_requests(c, save.folder, folder));
  phases.limit(arguments_.time_limit);
  {
    const std::scoped_lock lock(mutex_);
    phases_ = phases;
    phases_.save = save.outcome;
  }
  if (!save.done) run_save(c, save);
  phases.save = save.outcome;
  if (save.outcome.ok()) {
    std::size_t stage = 0;
    phases.run_resumes([&](const PhaseRequest& request) { return run_phase(request, ++stage); });
  }
  save.outcome.seconds = 0;  // counted once
  CaseResult result = result_of(c);
  on_rank_zero([&] {
    result = judge(c, phases, root_, out_ / "artifacts" / c.slug());
    if (save.outcome.ok()) save.guard.judge(result);
    fs::remove_all(folder);
    if (!is_needed(key)) fs::remove_all(save.folder);
  });
  return result;
}

void JobRun::run_save(const Case& c, SaveRun& save) {
  on_rank_zero([&] { fs::remove_all(save.folder); });
  PhaseRequest request = save.request;
  request.limit_seconds = arguments_.time_limit;
  save.outcome = run_phase(request, 0);
  save.done = true;
  if (!save.outcome.ok()) return;
  on_rank_zero([&] {
    damage_checkpoint(save.request.checkpoint, c.scenario->faults);
    save.guard = CheckpointGuard(save.request.checkpoint);
  });
}

bool JobRun::is_needed(const std::string& save_key) const {
  return std::any_of(selected_.begin(), selected_.end(), [&](std::size_t i) {
    return finished_.count(i) == 0 && running_ != i && cases_[i].save_key() == save_key;
  });
}

CaseResult JobRun::of_rank_zero(const CaseResult& mine) {
  const std::string line = speaks() ? to_json_line(mine, "") : "";
  const auto all = world_.all_gather(std::as_bytes(std::span(line.data(), line.size())));
  if (speaks()) return mine;
  return from_json_line({reinterpret_cast<const char*>(all[0].data()), all[0].size()});
}

CaseResult JobRun::finished(CaseResult result) const {
  result.process = "same";
  if (const std::string note = devices_.note(); !note.empty()) result.notes.push_back(note);
  for (const std::string& defect : arguments_.defects) {
    result.notes.push_back("under --defect " + defect);
  }
  std::string flags;
  for (const std::string& defect : arguments_.defects) flags += " --defect " + shell_quoted(defect);
  if (arguments_.device != "cpu") flags += " --device " + arguments_.device;
  result.again = fmt::format("mpirun -np {} {} {}{}", world_.size(), arguments_.program,
                             shell_quoted(result.name), flags);
  return result;
}

// A result that cannot be written down ends the job: what follows could not be either.
void JobRun::note(const CaseResult& result) {
  const std::scoped_lock lock(mutex_);
  results_.push_back(result);
  running_.reset();
  if (!file_) return;
  try {
    file_->append(result);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "resumecheck-mpi: %s\n", error.what());
    MpiJob::abort(3);
  }
}

CaseResult JobRun::run(std::size_t index) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const Case& c = cases_[index];
  {
    const std::scoped_lock lock(mutex_);
    running_ = index;
    phases_ = {};
  }
  watchdog_->expect_end_within(arguments_.time_limit);
  CaseResult result = result_of(c);
  if (const auto reason = why_skipped(c)) {
    result.verdict = Verdict::skip;
    result.reason = *reason;
    for (const std::string& name : arguments_.required) {
      if (reason->rfind("needs " + name, 0) != 0) continue;
      result.verdict = Verdict::error;
      result.reason += " (required by --require " + name + ")";
    }
  } else {
    try {
      result = run_together(c);
    } catch (const std::exception& error) {  // the same on every rank
      result.reason = error.what();
    }
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  result = of_rank_zero(finished(result));
  note(result);
  finished_.insert(index);
  watchdog_->relax();
  return result;
}

// ---- when the job has to end ---------------------------------------------------------------

std::optional<int> JobRun::dead_process() const {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (is_dead(processes_[i])) return static_cast<int>(i);
  }
  return std::nullopt;
}

// Ranks without a record: dead, hanging, or only waiting for the dead one.
PhaseOutcome JobRun::outcome_cut_short(const PhaseRequest& request, std::size_t stage,
                                       Watchdog::Reason reason) const {
  PhaseOutcome outcome = outcome_of_records(request, FileTime::clock::now(), "same", "mpi");
  const int n = static_cast<int>(processes_.size());
  for (RankEnd& end : outcome.ranks) {
    if (end.record) continue;
    const int process = process_of(end.rank, stage, n);
    if (reason == Watchdog::Reason::time_limit) {
      end.how = RankEnd::How::hung;
    } else if (!is_dead(processes_[static_cast<std::size_t>(process)])) {
      end.how = RankEnd::How::cancelled;
    }
  }
  return outcome;
}

CaseResult JobRun::cut_short(const Case& c, Watchdog::Reason reason) const {
  CaseResult result = result_of(c);
  const bool late = reason == Watchdog::Reason::time_limit;
  const std::string limit = fmt::format("not done within {} s", arguments_.time_limit);
  if (!stage_ || (!late && !dead_process())) {
    result.verdict = late ? Verdict::timeout : Verdict::error;
    result.reason = late ? limit : "interrupted: the job was told to end";
    return finished(result);
  }
  Phases phases = phases_;
  if (*stage_ == 0) {
    phases.save = outcome_cut_short(phases.save_request, 0, reason);
  } else {
    ResumeRun& resume = phases.resumes[*stage_ - 1];
    resume.outcome = outcome_cut_short(resume.request, *stage_, reason);
  }
  result = judge(c, phases, root_, out_ / "artifacts" / c.slug());
  if (late) result.notes.push_back(limit);
  return finished(result);
}

std::string JobRun::command_to_continue() const {
  std::string command =
      fmt::format("mpirun -np {} {}", world_.size(), shell_quoted(arguments_.program));
  for (const std::string& pattern : arguments_.patterns) command += " " + shell_quoted(pattern);
  for (const std::string& defect : arguments_.defects) {
    command += " --defect " + shell_quoted(defect);
  }
  if (arguments_.device != "cpu") command += " --device " + arguments_.device;
  return command + " --after " + shell_quoted(results_.back().name) + " --out " +
         shell_quoted(arguments_.out + "-continued");
}

void JobRun::report_rest(const std::string& why) {
  std::set<std::string> known;
  for (const CaseResult& result : results_) known.insert(result.name);
  const std::string last = results_.empty() ? "" : results_.back().name;
  std::vector<CaseResult> rest;
  for (const std::size_t index : selected_) {
    if (known.count(cases_[index].name()) != 0) continue;
    CaseResult result = result_of(cases_[index]);
    result.verdict = Verdict::error;
    result.reason = "not run: " + why;
    rest.push_back(finished(result));
  }
  if (!rest.empty() && !results_.empty()) {
    say(fmt::format("{} cases were not run; to continue:\n  {}", rest.size(),
                    command_to_continue()));
  }
  for (const CaseResult& result : rest) {
    file_->append(result);
    results_.push_back(result);
  }
}

// On the watchdog's thread; the main one may hang anywhere, or hold nothing that this needs but the
// mutex, which it holds for moments only.
void JobRun::give_up(Watchdog::Reason reason) {
  if (reason == Watchdog::Reason::time_limit) {
    kill(getpid(), SIGUSR1);  // the main thread's stack
    std::this_thread::sleep_for(std::chrono::duration<double>(kStacksNeed));
  }
  if (!speaks()) {  // rank 0 writes, then ends the job; a rank 0 that cannot must not keep it alive
    std::this_thread::sleep_for(std::chrono::seconds(30));
    MpiJob::abort(3);
  }
  const std::scoped_lock lock(mutex_);
  int code = 3;
  try {
    std::string why = "the job ended before it";
    if (running_) {
      const CaseResult result = cut_short(cases_[*running_], reason);
      why = "the job ended in " + result.name;
      results_.push_back(result);
      file_->append(result);
      say(failure_block(result, wants_colour()));
    }
    report_rest(why);
    code = write_reports();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "resumecheck-mpi: %s\n", error.what());
  }
  MpiJob::abort(code);
}

int JobRun::write_reports() {
  std::vector<Verdict> verdicts;
  for (const CaseResult& result : results_) verdicts.push_back(result.verdict);
  const int code = exit_code(verdicts);
  if (!speaks()) return code;
  write_file(out_ / "junit.xml", junit_xml(results_));
  say(summary_table(results_, wants_colour()));
  const std::string outcomes = outcome_table(results_, {true, wants_colour()});
  if (!outcomes.empty()) say("\n" + outcomes);
  say(fmt::format("results: {}   junit: {}", (out_ / "results.jsonl").string(),
                  (out_ / "junit.xml").string()));
  return code;
}

int JobRun::finish() {
  watchdog_->relax();
  if (results_.empty()) {
    if (speaks()) std::fputs("resumecheck-mpi: no case was run; see --gtest_list_tests\n", stderr);
    return exit_code({});
  }
  if (speaks()) {
    std::error_code ignored;
    fs::remove(out_ / "work", ignored);  // only where it is empty
  }
  return write_reports();
}

// ---- cases as GoogleTests ------------------------------------------------------------------

class CaseTest : public testing::Test {
 public:
  CaseTest(JobRun* job, std::size_t index) : job_(job), index_(index) {}

  void TestBody() override {
    const CaseResult result = job_->run(index_);
    if (result.verdict == Verdict::skip) GTEST_SKIP() << result.reason;
    if (!job_->speaks()) return;  // the listener tells the others
    if (unexpected(result.verdict) || result.verdict == Verdict::error ||
        result.verdict == Verdict::timeout) {
      ADD_FAILURE() << failure_block(result, false);
    } else {
      say(console_line(result, wants_colour()));
    }
  }

 private:
  JobRun* job_;
  std::size_t index_;
};

void register_cases(const std::vector<Case>& cases, JobRun* job) {
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string name = cases[i].name();
    const std::string file = cases[i].scenario->file.string();
    const std::string full = cases[i].gtest_name();
    const std::string suite = full.substr(0, full.size() - cases[i].gtest_test().size() - 1);
    testing::RegisterTest(suite.c_str(), cases[i].gtest_test().c_str(), nullptr, name.c_str(),
                          file.c_str(), 1,
                          [job, i]() -> testing::Test* { return new CaseTest(job, i); });
  }
}

// Which cases --gtest_filter leaves.
class SelectionListener final : public testing::EmptyTestEventListener {
 public:
  explicit SelectionListener(JobRun& job) : job_(job) {}
  void OnTestIterationStart(const testing::UnitTest& all, int) override {
    std::set<std::string> names;
    for (int s = 0; s < all.total_test_suite_count(); ++s) {
      const testing::TestSuite& suite = *all.GetTestSuite(s);
      for (int t = 0; t < suite.total_test_count(); ++t) {
        const testing::TestInfo& info = *suite.GetTestInfo(t);
        if (info.should_run()) names.insert(std::string(suite.name()) + "." + info.name());
      }
    }
    std::set<std::size_t> chosen;
    for (std::size_t i = 0; i < job_.cases().size(); ++i) {
      if (names.count(job_.cases()[i].gtest_name()) != 0) chosen.insert(i);
    }
    job_.select(std::move(chosen));
  }

 private:
  JobRun& job_;
};

std::string cmake_quoted(const std::string& text) { return "[==[" + text + "]==]"; }

void switch_on(const std::vector<std::string>& defects, Case& c) {
  if (defects.empty()) return;
  Scenario scenario = *c.scenario;
  for (const std::string& text : defects) scenario.faults.push_back(parse_fault(text));
  c.scenario = std::make_shared<const Scenario>(std::move(scenario));
}

void check_defects(const std::vector<std::string>& defects) {
  std::set<std::string> known;
  for (const auto& names : {defect_names(), rank_fault_names(), checkpoint_fault_names()}) {
    known.insert(names.begin(), names.end());
  }
  for (const std::string& text : defects) {
    const std::string name = parse_fault(text).name;
    if (known.count(name) != 0) continue;
    throw Error(Error::Kind::usage, "--defect " + name, "there is no such defect",
                fmt::format("one of {}, {}, {}", fmt::join(defect_names(), ", "),
                            fmt::join(rank_fault_names(), ", "),
                            fmt::join(checkpoint_fault_names(), ", ")));
  }
}

}  // namespace

std::vector<Case> chosen_cases(const MpiCasesArguments& arguments) {
  if (arguments.out.empty()) {
    throw Error(Error::Kind::usage, "--out ''", "is no folder", "give its name");
  }
  if (std::isnan(arguments.time_limit)) {  // within every range, as no comparison refuses it
    throw Error(Error::Kind::usage, "--time-limit nan", "is no number of seconds");
  }
  check_defects(arguments.defects);
  std::vector<Case> native;
  for (Case& c : expand(read_scenarios(project_root() / "scenarios"), {})) {
    if (c.native()) native.push_back(std::move(c));
  }
  Selection selection;
  selection.patterns = arguments.patterns;
  std::vector<Case> chosen = select(native, selection);
  if (!arguments.after.empty()) {
    const auto last = std::find_if(chosen.begin(), chosen.end(),
                                   [&](const Case& c) { return c.name() == arguments.after; });
    if (last == chosen.end() || last + 1 == chosen.end()) {
      throw Error(Error::Kind::usage, "--after " + arguments.after,
                  last == chosen.end() ? "is no case of this selection" : "nothing comes after it");
    }
    chosen.erase(chosen.begin(), last + 1);
  }
  for (Case& c : chosen) {
    c.device = arguments.device;
    switch_on(arguments.defects, c);
    save_run_request(c, "");  // throws where a fault does not fit the mesh
    resume_run_requests(c, "", "");
  }
  return chosen;
}

int list_cases(const MpiCasesArguments& arguments) {
  if (launched_rank() != 0) return 0;
  register_cases(chosen_cases(arguments), nullptr);
  return RUN_ALL_TESTS();
}

void write_ctest_script(const MpiCasesArguments& arguments, const std::string& mpirun,
                        const std::string& file) {
  struct Entry {
    int ranks = 1;
    std::string slug;
  };
  std::map<std::string, Entry> tests;  // a launch each, so nightly scenarios are one for all cases
  for (const Case& c : chosen_cases(arguments)) {
    const bool nightly = contains(c.scenario->labels, "nightly");
    Entry& test = tests[nightly ? c.scenario->name : c.name()];
    test.ranks = std::max(test.ranks, ranks_needed(c));
    if (test.slug.empty()) test.slug = c.slug();
  }
  std::string script;
  for (const auto& [name, test] : tests) {
    script += fmt::format(
        "add_test({0} {1} --oversubscribe --bind-to none -np {2} {3} {0} --out {4})\n"
        "set_tests_properties({0} PROPERTIES PROCESSORS {2} TIMEOUT 300 SKIP_RETURN_CODE 77\n"
        "  ENVIRONMENT \"OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\"\n"
        "  LABELS \"cases\")\n",
        cmake_quoted(name), cmake_quoted(mpirun), test.ranks, cmake_quoted(arguments.program),
        cmake_quoted(arguments.out + "/" + test.slug));
  }
  write_file(file, script);
}

int run_cases_in_job(const MpiCasesArguments& arguments, int* argc, char*** argv) {
  std::vector<Case> cases = chosen_cases(arguments);
  Watchdog::take_signals();
  MpiJob job(argc, argv, 10 * arguments.time_limit + 60);
  JobRun run(arguments, std::move(cases), job);
  register_cases(run.cases(), &run);
  const auto listener_ranks = job.part(true, job.world().rank());
  testing::UnitTest::GetInstance()->listeners().Append(new SelectionListener(run));
  merge_ranks(*listener_ranks);
  const int tests = run_merged_tests(*listener_ranks);
  const int code = run.finish();
  return code == 0 && tests != 0 ? 1 : code;
}

}  // namespace resumecheck
