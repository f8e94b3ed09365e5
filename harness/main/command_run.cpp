// `resumecheck run`: which cases, where, and what becomes of their results. A result is on disk
// before the next case begins, so that neither a signal nor a full disk nor a crash takes back what
// was found out; and what was not run says so, as a run that was cut short must never look green.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/main/commands.h"
#include "harness/phases/case_runner.h"
#include "harness/phases/fault.h"
#include "harness/phases/interruption.h"
#include "harness/phases/judgement.h"
#include "harness/phases/process.h"
#include "harness/report/outcome_table.h"
#include "harness/report/report.h"
#include "harness/scenario/case.h"
#include "harness/scenario/names.h"
#include "harness/scenario/nearest_name.h"
#include "harness/state/error.h"
#include "harness/state/file.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;

constexpr int kExitCodeOfHarness = 3;

struct RunArguments {
  std::vector<std::string> patterns, labels, adapters, environments, required, defects;
  std::optional<std::string> launcher;
  std::string device = "cpu";
  std::string out = "out";
  std::string junit;
  double time_limit = 120;
  bool cold = false;
  bool keep = false;
};

// ---- which cases ---------------------------------------------------------------------------

std::vector<Case> selected_cases(const RunArguments& arguments, const fs::path& root) {
  Selection selection;
  selection.patterns = arguments.patterns;
  selection.labels = arguments.labels;
  selection.adapters = arguments.adapters;
  if (selection.patterns.empty() && selection.labels.empty()) selection.labels = {"quick"};
  return find_cases(root, find_environments(root, arguments.environments), selection);
}

void check_fault(const FaultSpec& fault, const std::vector<Case>& cases) {
  if (contains(rank_fault_names(), fault.name) || contains(checkpoint_fault_names(), fault.name)) {
    return;
  }
  for (const Case& c : cases) {
    const auto& defects = adapter_declaration(c.adapter).defects;
    if (contains(defects, fault.name)) continue;
    const auto& of_reference = adapter_declaration("reference").defects;
    throw Error(Error::Kind::usage, "--defect " + fault.name,
                fmt::format("adapter {} of {} has no such defect", c.adapter, c.name()),
                contains(of_reference, fault.name)
                    ? std::string("it is the reference's: add --adapter reference")
                    : fmt::format("there are for every adapter {}, {}; for reference {}",
                                  fmt::join(rank_fault_names(), ", "),
                                  fmt::join(checkpoint_fault_names(), ", "),
                                  fmt::join(of_reference, ", ")));
  }
}

// The same cases with the defects switched on.
void switch_on(const std::vector<std::string>& defects, std::vector<Case>& cases) {
  std::vector<FaultSpec> faults;
  for (const std::string& text : defects) {
    faults.push_back(parse_fault(text));
    check_fault(faults.back(), cases);
  }
  if (faults.empty()) return;
  for (Case& c : cases) {
    Scenario scenario = *c.scenario;
    scenario.faults.insert(scenario.faults.end(), faults.begin(), faults.end());
    c.scenario = std::make_shared<const Scenario>(std::move(scenario));
  }
}

// A misspelt --require would turn no skip into an error, and so be green by absence.
void check_required(const RunArguments& arguments, const std::vector<Case>& cases,
                    const fs::path& root) {
  if (arguments.required.empty()) return;
  std::vector<std::string> known = {"cuda", "nccl", "gxx"};
  const auto add = [&known](const std::string& name) {
    if (!name.empty() && !contains(known, name)) known.push_back(name);
  };
  for (const Environment& environment : find_environments(root, {})) add(environment.name);
  for (const Case& c : cases) {
    for (const auto& environment : {c.save_env, c.load_env}) {
      if (environment) add(environment->name);
    }
    add(adapter_declaration(c.adapter).package);
    for (const std::string& requirement : c.scenario->requirements) add(requirement);
  }
  for (const std::string& name : arguments.required) {
    if (contains(known, name)) continue;
    throw Error(Error::Kind::usage, "--require " + name,
                "nothing is skipped for a reason like that", did_you_mean(name, known));
  }
}

// ---- where results go ----------------------------------------------------------------------

// Two runs in one folder would remove each other's work.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder) {
    std::error_code problem;
    fs::create_directories(folder, problem);
    if (problem) throw Error(Error::Kind::harness, folder.string(), problem.message());
    const fs::path file = folder / ".lock";
    const bool used_before = fs::exists(file, problem);
    descriptor_ = open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    if (descriptor_ < 0) throw Error(Error::Kind::harness, file.string(), std::strerror(errno));
    if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) {
      if (used_before) remove_leavings(folder);
      return;
    }
    close(descriptor_);
    throw Error(Error::Kind::harness, folder.string(), "another resumecheck is writing there",
                "wait for it, or give another folder with --out");
  }
  ~FolderLock() { close(descriptor_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  // Of the run before; a folder that never held one may hold anything, and is left alone.
  static void remove_leavings(const fs::path& folder) {
    std::error_code ignored;
    for (const char* name : {"work", "artifacts"}) fs::remove_all(folder / name, ignored);
  }

  int descriptor_ = -1;
};

bool wants_colour() { return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr; }

// A line says that a case is as it should be; anything else is explained.
bool wants_block(const CaseResult& result) {
  return result.verdict == Verdict::error || result.verdict == Verdict::timeout ||
         unexpected(result.verdict);
}

void say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  if (text.empty() || text.back() != '\n') std::fputc('\n', stdout);
  std::fflush(stdout);
}

// What must be added to the command for it to do the same again.
std::string flags_again(const RunArguments& arguments) {
  std::string flags;
  for (const std::string& defect : arguments.defects) flags += " --defect " + shell_quoted(defect);
  for (const std::string& environment : arguments.environments) {
    if (environment.find('=') != std::string::npos) flags += " --env " + shell_quoted(environment);
  }
  if (arguments.device != "cpu") flags += " --device " + arguments.device;
  if (arguments.launcher) flags += " --launcher " + shell_quoted(*arguments.launcher);
  return flags;
}

CaseRunOptions options_of(const RunArguments& arguments, const fs::path& root) {
  const fs::path out = arguments.out;
  CaseRunOptions options;
  options.root = root;
  options.work = out / "work";
  options.artifacts = out / "artifacts";
  options.native_program = fs::read_symlink("/proc/self/exe").parent_path() / "resumecheck-mpi";
  if (arguments.launcher) options.launcher = Launcher(*arguments.launcher);
  options.cold = arguments.cold;
  options.keep = arguments.keep;
  options.limit_seconds = arguments.time_limit;
  return options;
}

class Run {
 public:
  Run(const RunArguments& arguments, const fs::path& root, std::vector<Case> cases)
      : arguments_(arguments),
        root_(root),
        options_(options_of(arguments, root)),
        out_(arguments.out),
        cases_(std::move(cases)),
        lock_(out_),
        file_(out_ / "results.jsonl", read_provenance(root)) {}

  int run();

 private:
  void run_and_report();
  bool skipped(const Case& c);
  enum class Telling { each, first_of_a_reason };
  void report(CaseResult result, Telling telling = Telling::each);
  void say_of_case(const CaseResult& result, Telling telling);
  void say_untold();
  void report_not_run(const std::string& reason);
  std::string again(const Case& c) const;
  fs::path junit() const {
    return arguments_.junit.empty() ? out_ / "junit.xml" : fs::path(arguments_.junit);
  }

  const RunArguments& arguments_;
  const fs::path& root_;
  CaseRunOptions options_;
  fs::path out_;
  std::vector<Case> cases_;
  FolderLock lock_;
  ResultsFile file_;
  std::vector<CaseResult> results_;
  std::set<std::string> reported_;
  std::optional<Error> wrong_usage_;
  std::map<std::string, int> untold_;  // reason -> cases after the first that have it
};

std::string Run::again(const Case& c) const {
  std::string argument = c.name();
  const fs::path& file = c.scenario->file;
  const std::string from_scenarios = fs::relative(file, root_ / "scenarios").string();
  if (from_scenarios.rfind("..", 0) == 0)
    argument.replace(0, c.scenario->name.size(), file.string());
  return "resumecheck run " + shell_quoted(argument) + flags_again(arguments_);
}

void Run::report(CaseResult result, Telling telling) {
  reported_.insert(result.name);
  for (const std::string& defect : arguments_.defects) {
    result.notes.push_back("under --defect " + defect);
  }
  const auto c = std::find_if(cases_.begin(), cases_.end(),
                              [&](const Case& one) { return one.name() == result.name; });
  if (c != cases_.end()) result.again = again(*c);
  file_.append(result);
  results_.push_back(result);
  say_of_case(result, telling);
}

// What keeps many cases from being run is told once, with how many more it keeps.
void Run::say_of_case(const CaseResult& result, Telling telling) {
  if (telling == Telling::first_of_a_reason) {
    const auto [known, added] = untold_.emplace(result.reason, 0);
    if (!added) {
      ++known->second;
      return;
    }
  }
  say(wants_block(result) ? failure_block(result, wants_colour())
                          : console_line(result, wants_colour()));
}

void Run::say_untold() {
  for (const auto& [reason, count] : untold_) {
    if (count > 0) say(fmt::format("and {} more case{}: {}", count, count == 1 ? "" : "s", reason));
  }
  untold_.clear();
}

// A case that cannot run here is a SKIP, unless someone counts on it.
bool Run::skipped(const Case& c) {
  const auto reason = why_not_runnable(c, options_.launcher.name());
  if (!reason) return false;
  CaseResult result = result_of(c);
  result.reason = *reason;
  result.verdict = Verdict::skip;
  for (const auto& environment : {c.save_env, c.load_env}) {
    const bool missing = environment && environment->python.empty();
    if (missing && environment->named_by_user) result.verdict = Verdict::error;
  }
  for (const std::string& name : arguments_.required) {
    if (reason->find(name) == std::string::npos) continue;
    result.verdict = Verdict::error;
    result.reason += fmt::format(" (required by --require {})", name);
    break;
  }
  report(result, result.verdict == Verdict::error ? Telling::first_of_a_reason : Telling::each);
  return true;
}

void Run::report_not_run(const std::string& reason) {
  for (const Case& c : cases_) {
    if (reported_.count(c.name()) != 0) continue;
    CaseResult result = result_of(c);
    result.reason = reason;
    report(result, Telling::first_of_a_reason);
  }
  say_untold();
}

void Run::run_and_report() {
  try {
    std::vector<Case> runnable;
    for (const Case& c : cases_) {
      if (!skipped(c)) runnable.push_back(c);
    }
    say_untold();
    run_cases(runnable, options_, [this](const CaseResult& result) { report(result); });
  } catch (const Interrupted&) {
    end_all_descendants();
    report_not_run("interrupted: not run");
  } catch (const Error& problem) {  // of the person's own code: no case of it can be run
    if (problem.kind() != Error::Kind::usage) throw;
    end_all_descendants();
    report_not_run(fmt::format("not run: {}", problem.what()));
    wrong_usage_ = problem;
  }
  end_all_descendants();
  say(summary_table(results_, wants_colour()));
  const std::string outcomes = outcome_table(results_, {true, wants_colour()});
  if (!outcomes.empty()) say(fmt::format("\n{}", outcomes));
  write_file(junit(), junit_xml(results_));
  say(fmt::format("results: {}   junit: {}", (out_ / "results.jsonl").string(), junit().string()));
  if (fs::exists(options_.artifacts)) {
    say(fmt::format("what failed left: {}", options_.artifacts.string()));
  }
}

int Run::run() {
  const InterruptionHandlers handlers(kExitCodeOfHarness);
  try {
    run_and_report();
  } catch (const Error& problem) {  // of writing results: what was found out decides all the same
    std::fprintf(stderr, "resumecheck: %s\n", problem.what());
    results_.emplace_back();  // an ERROR
  }
  if (wrong_usage_) throw Error(*wrong_usage_);
  std::vector<Verdict> verdicts;
  for (const CaseResult& result : results_) verdicts.push_back(result.verdict);
  return exit_code(verdicts);
}

// Found out before an hour of cases rather than after it.
void check_values(const RunArguments& arguments) {
  if (std::isnan(arguments.time_limit)) {  // within every range, as no comparison refuses it
    throw Error(Error::Kind::usage, "--time-limit nan", "is no number of seconds");
  }
  if (arguments.out.empty()) {
    throw Error(Error::Kind::usage, "--out ''", "is no folder", "give its name");
  }
  if (arguments.junit.empty()) return;
  const fs::path file = arguments.junit;
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) {
    throw Error(Error::Kind::usage, "--junit " + file.string(), "is a folder", "name a file in it");
  }
  const fs::path folder = fs::absolute(file).parent_path();
  if (!fs::is_directory(folder, ignored)) {
    throw Error(Error::Kind::usage, "--junit " + file.string(),
                "there is no folder " + folder.string(), "make it first");
  }
}

int run(const RunArguments& arguments) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is then an error of the write, as a full disk
  check_values(arguments);
  const fs::path root = project_root();
  std::vector<Case> cases = selected_cases(arguments, root);
  for (Case& c : cases) c.device = arguments.device;
  switch_on(arguments.defects, cases);
  check_required(arguments, cases, root);
  return Run(arguments, root, std::move(cases)).run();
}

}  // namespace

void add_run_command(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand(
      "run", "Runs cases, launching their ranks; without a pattern those labelled quick");
  command->add_option("patterns", arguments->patterns,
                      "case names with * and ?, or paths of scenario files (.toml, .py)");
  command->add_option("--label", arguments->labels, "only cases with this label");
  command->add_option("--adapter", arguments->adapters, "only cases of this adapter");
  command->add_option("--env", arguments->environments,
                      "only this environment, as NAME or NAME=/path/to/python");
  command->add_option("--launcher", arguments->launcher,
                      "starts the ranks, {n} being their number: 'srun -n {n}'");
  command->add_flag("--cold", arguments->cold, "start every phase afresh, never by a fork");
  command->add_option("--out", arguments->out, "folder for results")->capture_default_str();
  command->add_option("--junit", arguments->junit, "JUnit file (out/junit.xml)");
  command->add_option("--time-limit", arguments->time_limit, "seconds a phase")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  command->add_option("--require", arguments->required,
                      "a skip for this reason is an error: cuda, torch-2.8");
  command->add_option(
      "--defect", arguments->defects,
      "switch a mistake on, as NAME, NAME:RANK or NAME:RANK:WHEN, to see it caught");
  command->add_flag("--keep", arguments->keep, "keep states and checkpoints");
  command->add_option("--device", arguments->device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  for (const char* many : {"--label", "--adapter", "--env", "--require", "--defect"}) {
    command->get_option(many)->allow_extra_args(false);  // one each, or it would take the patterns
  }
  command->callback([arguments, &exit_code] { exit_code = run(*arguments); });
}

}  // namespace resumecheck
