// The order of the questions is the contract: a state that is already wrong after the load explains
// a crash three steps later, and a golden says nothing of a resume that did not get so far. What a
// question before has not settled is never guessed at: an oracle that was not reached says so, and
// a pass is looked at once more for whether it could have failed at all.
#include "harness/phases/judgement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "harness/compare/vacuity.h"
#include "harness/phases/golden.h"
#include "harness/phases/refusal.h"
#include "harness/scenario/variants.h"
#include "harness/state/digest.h"
#include "harness/state/error.h"
#include "harness/state/quantised_moment.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPass = "pass";
constexpr const char* kFail = "fail";
constexpr const char* kNotReached = "not_reached";
constexpr const char* kNotApplicable = "not_applicable";

bool asks_for(const Scenario& scenario, const char* oracle) {
  const auto& oracles = scenario.oracles;
  return std::find(oracles.begin(), oracles.end(), oracle) != oracles.end();
}

bool is_step(const std::string& phase) { return phase.rfind("step ", 0) == 0; }

// Into failed_at's words: a rank that failed before its first phase was building what it was to
// train, which in a resume is part of loading.
// What the ranks say carried them, where they do.
std::string transport_of(const PhaseOutcome& outcome) {
  for (const RankEnd& end : outcome.ranks) {
    if (end.record && !end.record->transport.empty()) return end.record->transport;
  }
  return outcome.transport;
}

const ExitRecord* record_of_lost_device(const PhaseOutcome& outcome) {
  for (const RankEnd& end : outcome.ranks) {
    if (end.record && end.record->exception && end.record->exception->type == kDeviceFailure) {
      return &*end.record;
    }
  }
  return nullptr;
}

bool asks_for_nccl(const Case& c) {
  const auto& asked = c.scenario->requirements;
  return std::find(asked.begin(), asked.end(), "nccl") != asked.end();
}

std::string failed_at_of(const PhaseOutcome& outcome, bool saving) {
  const std::string at = outcome.failed_at();
  if (at == "save" || at == "load" || is_step(at) || at.rfind("save_run step ", 0) == 0) return at;
  return saving ? "save_run step 0" : "load";
}

// ---- what differs, in one line -------------------------------------------------------------

std::string describe(const Difference& d) {
  const std::string subject = d.key.part == "value" ? d.key.name : to_text(d.key);
  switch (d.kind) {
    case Difference::Kind::missing:
      return subject + " is missing";
    case Difference::Kind::extra:
      return subject + " was not there before";
    case Difference::Kind::dtype:
      return fmt::format("dtype of {}: want {}, got {}", subject, d.want, d.got);
    case Difference::Kind::shape:
      return fmt::format("shape of {}: want {}, got {}", subject, d.want, d.got);
    case Difference::Kind::block:
      return fmt::format("block size of {}: want {}, got {}", subject, d.want, d.got);
    case Difference::Kind::storage_width:
      return fmt::format("storage width of {} changed: want {}, got {}", subject, d.want, d.got);
    case Difference::Kind::value:
      return fmt::format("{}: want {}, got {}", subject, d.want, d.got);
    case Difference::Kind::bytes:
      break;
  }
  if (d.blocks > 0) {
    return fmt::format("{}: {} of {} blocks differ; first is block {}", subject, d.differing_blocks,
                       d.blocks, d.first_block);
  }
  return fmt::format("{}: {} of {} elements differ; first is element {}", subject, d.differing,
                     d.elements, d.first_index);
}

std::string symptom_of(const Comparison& comparison) {
  const auto& all = comparison.differences;
  const auto width = std::find_if(all.begin(), all.end(), [](const Difference& one) {
    return one.kind == Difference::Kind::storage_width;
  });
  return describe(width == all.end() ? all.front() : *width);
}

// ---- who holds an element ------------------------------------------------------------------

bool holds(const Box& box, const Shape& shape, std::int64_t index) {
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    const std::int64_t at = index % shape[dim];
    index /= shape[dim];
    if (at < box.offsets()[dim] || at >= box.offsets()[dim] + box.sizes()[dim]) return false;
  }
  return true;
}

std::string holder(const AssembledState& side, const Difference& difference, const char* verb) {
  const auto boxes = side.holders.find(difference.key);
  const auto tensor = side.state.tensors.find(difference.key);
  if (boxes == side.holders.end() || tensor == side.state.tensors.end()) return "";
  std::set<int> ranks;
  for (const HeldBox& held : boxes->second) {
    if (held.box.offsets().size() != tensor->second.shape.size()) continue;
    if (holds(held.box, tensor->second.shape, std::max<std::int64_t>(difference.first_index, 0))) {
      ranks.insert(held.rank);
    }
  }
  if (ranks.empty()) return "";
  return fmt::format("{} by rank{} {} of {}", verb, ranks.size() > 1 ? "s" : "",
                     fmt::join(ranks, ", "), side.mesh);
}

// "second", for the resume of index 1.
std::string ordinal(std::size_t index) {
  constexpr const char* names[] = {"first", "second", "third", "fourth"};
  return index < std::size(names) ? names[index] : fmt::format("{}th", index + 1);
}

// ---- the questions, in order ---------------------------------------------------------------

class Judgement {
 public:
  Judgement(const Case& c, const Phases& phases, const fs::path& root, const fs::path& artifacts)
      : case_(c),
        phases_(phases),
        root_(root),
        artifacts_(artifacts),
        settings_(phases.save_request.settings) {}

  CaseResult judge();

 private:
  void describe_case();
  bool harness_failed(const PhaseOutcome& outcome, const char* phase);
  bool unsupported(const PhaseOutcome& outcome);
  bool save_run_failed();
  bool refusal_judged();
  bool load_failed();
  bool after_load_differs();
  bool trajectory_differs();
  bool resume_failed_later();
  bool golden_differs();
  bool golden_differs(const Golden& golden, const PhaseRequest& request, std::int64_t step);
  bool vacuous();
  void mark_known_broken();

  bool asked(const char* oracle) const { return asks_for(*case_.scenario, oracle); }
  void fail(const std::string& failed_at, const std::string& symptom) {
    result_.verdict = Verdict::fail;
    result_.failed_at = failed_at;
    result_.symptom = resume_ == 0 || failed_at.rfind("save_run", 0) == 0
                          ? symptom
                          : fmt::format("{} resume in a row: {}", ordinal(resume_), symptom);
  }
  void cannot_judge(const std::string& reason) {
    result_.verdict = Verdict::error;
    result_.reason = reason;
  }
  const ResumeRun& resume() const { return phases_.resumes[resume_]; }
  bool resumes_decide();
  bool resume_differs();
  const Assembly& saved(std::int64_t step) { return read(phases_.save_request, step); }
  const Assembly& resumed(std::int64_t step) { return read(resume().request, step); }
  const Assembly& read(const PhaseRequest& request, std::int64_t step);
  bool broken(const Assembly& assembly, const std::string& failed_at);
  std::optional<std::string> misfit(const Assembly& assembly) const;
  bool differs(std::int64_t step, const std::string& failed_at, const char* oracle);
  void explain(const Comparison& comparison, std::int64_t step, bool at_load);
  void explain_disagreement(std::int64_t step);
  std::int64_t last_resumed_step() const;

  const Case& case_;
  const Phases& phases_;
  const fs::path& root_;
  const fs::path& artifacts_;
  const Settings& settings_;
  std::size_t resume_ = 0;  // the one that is being judged
  std::map<std::pair<const PhaseRequest*, std::int64_t>, Assembly> states_;
  CaseResult result_;
};

EnvironmentRecord record_of(const Environment& environment, const PhaseOutcome& outcome) {
  return {environment.name, environment.packages.empty() ? outcome.versions : environment.packages};
}

void add_notes(const PhaseOutcome& outcome, std::vector<std::string>& notes) {
  notes.insert(notes.end(), outcome.notes.begin(), outcome.notes.end());
  for (const RankEnd& end : outcome.ranks) {
    if (!end.record) continue;
    for (const std::string& note : end.record->notes) {
      if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
    }
  }
}

void Judgement::describe_case() {
  std::vector<const PhaseOutcome*> reached;
  for (const ResumeRun& one : phases_.resumes) {
    if (one.outcome) reached.push_back(&*one.outcome);
  }
  const PhaseOutcome& last = reached.empty() ? phases_.save : *reached.back();
  result_ = result_of(case_);
  if (case_.save_env) result_.save_environment = record_of(*case_.save_env, phases_.save);
  if (case_.load_env) result_.load_environment = record_of(*case_.load_env, last);
  result_.process = last.process;
  result_.transport = transport_of(last);
  result_.seconds = phases_.save.seconds;
  std::set<std::string> stand_ins(phases_.save.stand_ins.begin(), phases_.save.stand_ins.end());
  stand_ins.insert(last.stand_ins.begin(), last.stand_ins.end());
  result_.stand_ins.assign(stand_ins.begin(), stand_ins.end());
  add_notes(phases_.save, result_.notes);
  for (const PhaseOutcome* outcome : reached) {
    result_.seconds += outcome->seconds;
    add_notes(*outcome, result_.notes);
  }
}

bool Judgement::harness_failed(const PhaseOutcome& outcome, const char* phase) {
  if (!outcome.launch_problem.empty()) {
    cannot_judge(fmt::format("{}: {}", phase, outcome.launch_problem));
    return true;
  }
  if (const ExitRecord* lost = record_of_lost_device(outcome)) {
    cannot_judge(fmt::format("{}: {}", lost->phase, lost->exception->message));
    return true;
  }
  if (asks_for_nccl(case_) && outcome.ok() && transport_of(outcome) != "nccl") {
    cannot_judge(
        fmt::format("{}: needs nccl, but {} carried its {} ranks: one of them has no CUDA "
                    "device of its own",
                    phase, transport_of(outcome), outcome.ranks.size()));
    return true;
  }
  if (outcome.harness_timeout) {
    result_.verdict = Verdict::timeout;
    result_.reason = fmt::format("{}: the ranks had not begun within the time limit", phase);
    return true;
  }
  return false;
}

// An adapter that cannot do what is asked says so before it begins. A framework may raise an
// exception of that very name (torch._dynamo's is one), which is a failure of the part it is in.
bool Judgement::unsupported(const PhaseOutcome& outcome) {
  for (const RankEnd& end : outcome.ranks) {
    if (!end.record || !end.record->exception || end.record->exception->type != "Unsupported" ||
        !end.record->phase.empty()) {
      continue;
    }
    result_.verdict = Verdict::skip;
    result_.reason = end.record->exception->message;
    return true;
  }
  return false;
}

bool Judgement::save_run_failed() {
  if (phases_.save.ok()) return false;
  fail(failed_at_of(phases_.save, true), phases_.save.symptom());
  return true;
}

// Asked in place of the oracles, once the save run is known to have gone well.
bool Judgement::refusal_judged() {
  if (case_.scenario->refusal.empty() || !resume().outcome) return false;
  RefusalEvidence evidence;
  evidence.wanted = case_.scenario->refusal;
  if (const PhaseOutcome& outcome = *resume().outcome; !outcome.ok()) {
    evidence.failed_at = failed_at_of(outcome, false);
    evidence.symptom = outcome.symptom();
    evidence.raised = outcome.is_refusal();
  }
  evidence.fresh = &saved(0).assembled.state;
  evidence.at_save = &saved(settings_.save_after).assembled.state;
  evidence.parts = case_.scenario->parts;
  evidence.train_until = settings_.train_until;
  judge_refusal(evidence, result_);
  return true;
}

bool Judgement::load_failed() {
  if (!resume().outcome) {
    cannot_judge("the resume run was never started");
    return true;
  }
  if (resume().outcome->ok()) return false;
  const std::string at = failed_at_of(*resume().outcome, false);
  if (is_step(at) || at == "save") return false;
  fail(at, resume().outcome->symptom());
  return true;
}

const Assembly& Judgement::read(const PhaseRequest& request, std::int64_t step) {
  const auto known = states_.find({&request, step});
  if (known != states_.end()) return known->second;
  const fs::path folder = step_folder(request.states, step);
  Assembly assembly = read_states(folder, request.mesh.world());
  for (const AssemblyProblem& problem : assembly.problems) {
    if (problem.kind == AssemblyProblem::Kind::rank_missing) {
      throw Error(Error::Kind::harness, folder.string(), problem.message,
                  "the rank said that all went well: its adapter must write this state");
    }
  }
  return states_.emplace(std::make_pair(&request, step), std::move(assembly)).first->second;
}

// Ranks of one run that contradict each other, or leave a hole. What they disagree about beside
// their tensors has no part, and is always of weight.
bool Judgement::broken(const Assembly& assembly, const std::string& failed_at) {
  for (const AssemblyProblem& problem : assembly.problems) {
    const std::string& part = problem.key.part;
    if (!part.empty() && !selects(case_.scenario->parts, part)) continue;
    fail(failed_at, problem.message);
    return true;
  }
  return false;
}

// Codes, scales and codebook of a moment that do not fit each other: two states may agree in that.
std::optional<std::string> Judgement::misfit(const Assembly& assembly) const {
  for (const MomentMisfit& found : find_misfits(assembly.assembled.state)) {
    const std::string moment = found.key.part.substr(0, found.key.part.find('.'));
    const bool selected = std::any_of(case_.scenario->parts.begin(), case_.scenario->parts.end(),
                                      [&](const std::string& part) {
                                        return part == moment || part.rfind(moment + ".", 0) == 0;
                                      });
    if (selected) return found.what;
  }
  return std::nullopt;
}

void Judgement::explain(const Comparison& comparison, std::int64_t step, bool at_load) {
  const AssembledState& want = saved(step).assembled;
  const AssembledState& got = resumed(step).assembled;
  result_.parts = comparison.parts;
  if (!comparison.same()) {  // a misfit can lie in what the scenario does not compare
    const Difference& first = comparison.differences.front();
    result_.first_difference = first;
    for (const std::string& line :
         {holder(want, first, at_load ? "saved" : "continued"), holder(got, first, "held")}) {
      if (!line.empty()) result_.holders.push_back(line);
    }
  }
  Evidence evidence;
  evidence.want = &want;
  evidence.got = &got;
  evidence.one_step_before = &saved(step - 1).assembled;
  evidence.fresh = &saved(0).assembled.state;
  if (step < settings_.train_until) evidence.one_step_after = &saved(step + 1).assembled;
  evidence.param_dtype = settings_.param_dtype;
  evidence.saved_step = settings_.save_after;
  result_.diagnosis = diagnose(comparison, evidence);
  result_.want_file = (artifacts_ / "want.safetensors").string();
  result_.got_file = (artifacts_ / "got.safetensors").string();
  fs::create_directories(artifacts_);
  write_logical_state(result_.want_file, want.state);
  write_logical_state(result_.got_file, got.state);
}

// The first selected problem is the one that was told.
void Judgement::explain_disagreement(std::int64_t step) {
  for (const AssemblyProblem& problem : resumed(step).problems) {
    if (problem.key.part.empty() || !selects(case_.scenario->parts, problem.key.part)) continue;
    if (problem.kind != AssemblyProblem::Kind::replicas_disagree) return;
    const fs::path folder = step_folder(resume().request.states, step);
    const int world = resume().request.mesh.world();
    std::vector<RankState> ranks;
    ranks.reserve(static_cast<std::size_t>(world));
    for (int rank = 0; rank < world; ++rank) {
      ranks.push_back(read_rank_state(folder / state_file_name(rank)));
    }
    result_.diagnosis = diagnose_disagreement(problem.key, ranks, saved(step).assembled.state);
    return;
  }
}

bool Judgement::differs(std::int64_t step, const std::string& failed_at, const char* oracle) {
  result_.oracles[oracle] = kFail;
  if (broken(saved(step), fmt::format("save_run step {}", step))) return true;
  if (broken(resumed(step), failed_at)) {
    explain_disagreement(step);
    return true;
  }
  if (const auto what = misfit(saved(step))) {
    fail(fmt::format("save_run step {}", step), *what);
    return true;
  }
  const auto resumed_misfit = misfit(resumed(step));
  const Comparison comparison =
      compare(saved(step).assembled.state, resumed(step).assembled.state, case_.scenario->parts);
  result_.compared_tensors += comparison.tensors;
  result_.compared_bytes += comparison.bytes;
  if (comparison.same() && !resumed_misfit) {
    if (failed_at == "after_load") result_.parts = comparison.parts;
    result_.oracles[oracle] = kPass;
    return false;
  }
  fail(failed_at, resumed_misfit ? *resumed_misfit : symptom_of(comparison));
  explain(comparison, step, failed_at == "after_load");
  return true;
}

bool Judgement::after_load_differs() {
  return asked("after_load") &&
         differs(resume().request.settings.save_after, "after_load", "after_load");
}

// The last step whose state the resumed run left: all of them, or those before the one it failed.
std::int64_t Judgement::last_resumed_step() const {
  const std::int64_t last = resume().request.settings.train_until;
  if (resume().outcome->ok()) return last;
  const std::string at = failed_at_of(*resume().outcome, false);
  return at == "save" ? last : std::min<std::int64_t>(std::atoll(at.c_str() + 5) - 1, last);
}

bool Judgement::trajectory_differs() {
  if (!asked("trajectory")) return false;
  const std::int64_t first = resume().request.settings.save_after + 1;
  for (std::int64_t step = first; step <= last_resumed_step(); ++step) {
    if (differs(step, fmt::format("step {}", step), "trajectory")) return true;
  }
  return false;
}

bool Judgement::resume_failed_later() {
  const PhaseOutcome& outcome = *resume().outcome;
  if (outcome.ok()) return false;
  if (asked("trajectory")) result_.oracles["trajectory"] = kFail;
  fail(failed_at_of(outcome, false), outcome.symptom());
  return true;
}

// Of the resume that is being judged, when all before it were right.
bool Judgement::resume_differs() {
  return load_failed() || after_load_differs() || trajectory_differs() || resume_failed_later();
}

// A tensor that the golden does not know was compared with nothing.
std::optional<TensorKey> beside_golden(const std::map<TensorKey, GoldenTensor>& golden,
                                       const LogicalState& state,
                                       const std::vector<std::string>& parts) {
  for (const auto& [key, tensor] : state.tensors) {
    if (selects(parts, key.part) && golden.count(key) == 0) return key;
  }
  return std::nullopt;
}

bool Judgement::golden_differs(const Golden& golden, const PhaseRequest& request,
                               std::int64_t step) {
  const auto wanted = golden.steps.find(step);
  if (wanted == golden.steps.end()) {
    throw Error(Error::Kind::harness, golden.file.string(), fmt::format("holds no step {}", step),
                "make it anew with `resumecheck golden update`");
  }
  const LogicalState& state = read(request, step).assembled.state;
  const bool of_save_run = &request == &phases_.save_request;
  for (const auto& [key, tensor] : wanted->second) {
    if (!selects(case_.scenario->parts, key.part)) continue;
    const char* run = of_save_run ? "save run" : "resumed run";
    const auto found = state.tensors.find(key);
    ++result_.compared_tensors;
    if (found == state.tensors.end()) {
      fail("golden", fmt::format("{} is missing at step {} of the {}", to_text(key), step, run));
    } else if (name_of(found->second.dtype) != tensor.dtype ||
               found->second.shape != tensor.shape) {
      fail("golden", fmt::format("{} at step {} of the {}: want {} {}, got {} {}", to_text(key),
                                 step, run, tensor.dtype, to_text(tensor.shape),
                                 name_of(found->second.dtype), to_text(found->second.shape)));
    } else if (digest(found->second) != tensor.digest) {
      fail("golden",
           fmt::format("{} differs from the golden at step {} of the {}", to_text(key), step, run));
    } else {
      continue;
    }
    fs::create_directories(artifacts_);
    result_.got_file = (artifacts_ / "got.safetensors").string();
    write_logical_state(result_.got_file, state);
    result_.notes.push_back("golden: " + golden.file.string());
    return true;
  }
  if (const auto key = beside_golden(wanted->second, state, case_.scenario->parts)) {
    fail("golden", fmt::format("{} at step {} of the {} is not in the golden", to_text(*key), step,
                               of_save_run ? "save run" : "resumed run"));
    return true;
  }
  return false;
}

bool Judgement::golden_differs() {
  if (!asked("golden")) return false;
  const std::string& scenario = case_.scenario->name;
  const auto golden = read_golden(root_, *case_.scenario);
  if (!golden) {
    cannot_judge(fmt::format(
        "{}: no golden; make it with `resumecheck golden update {} --reason WHY`",
        golden_file(root_, golden_name(*case_.scenario)).string(), shell_quoted(scenario)));
    return true;
  }
  result_.golden = golden->digest;
  result_.oracles["golden"] = kFail;
  const std::int64_t before = result_.compared_tensors;
  for (std::int64_t step = settings_.save_after; step <= settings_.train_until; ++step) {
    if (golden_differs(*golden, phases_.save_request, step)) return true;
    for (resume_ = 0; resume_ < phases_.resumes.size(); ++resume_) {
      const Settings& taken = resume().request.settings;
      if (step < taken.save_after || step > taken.train_until) continue;
      if (golden_differs(*golden, resume().request, step)) return true;
    }
    resume_ = 0;
  }
  if (result_.compared_tensors == before) {
    cannot_judge(
        fmt::format("{}: holds nothing that this case compares; make it anew with "
                    "`resumecheck golden update {} --reason WHY`",
                    golden->file.string(), shell_quoted(scenario)));
    return true;
  }
  result_.oracles["golden"] = kPass;
  return false;
}

bool Judgement::vacuous() {
  VacuityEvidence evidence;
  evidence.fresh = &saved(0).assembled;
  evidence.at_save = &saved(settings_.save_after).assembled;
  const PhaseRequest& first = phases_.resumes.front().request;
  evidence.after_load = &read(first, settings_.save_after).assembled;
  evidence.at_end = &saved(settings_.train_until).assembled;
  evidence.resumed_end = &read(phases_.resumes.back().request, settings_.train_until).assembled;
  evidence.mesh_changed = !(case_.from == case_.onto);
  evidence.same_storage = phases_.save_request.states == first.states;
  evidence.parts = case_.scenario->parts;
  evidence.parameters = settings_.parameters;
  evidence.compared_tensors = result_.compared_tensors;
  evidence.rounds_by_generator =
      settings_.optimizer.stochastic_rounding && settings_.optimizer.profile != "canonical";
  const auto reason = why_vacuous(evidence);
  if (!reason) return false;
  result_.verdict = Verdict::vacuous;
  result_.reason = *reason;
  return true;
}

// A symptom that names a phase names all of it: "step 4: ..." is not "save_run step 4: ...".
bool shows(const std::string& failed_at, const std::string& symptom, const std::string& known) {
  return (failed_at + ": " + symptom).rfind(known, 0) == 0 ||
         symptom.find(known) != std::string::npos;
}

void Judgement::mark_known_broken() {
  const bool failed = result_.verdict == Verdict::fail;
  if (!failed && result_.verdict != Verdict::pass) return;
  const KnownBroken* known = known_broken(case_);
  if (known == nullptr) return;
  if (!failed) {
    result_.verdict = Verdict::xpass;
    result_.known_broken = known->origin;
    result_.reason =
        fmt::format("passes although {} marks it as known broken ({}); remove the mark",
                    known->where, known->origin);
  } else if (shows(result_.failed_at, result_.symptom, known->symptom)) {
    result_.verdict = Verdict::xfail;
    result_.known_broken = known->origin;
  } else {
    result_.notes.push_back(fmt::format("known broken by {} with another symptom: '{}'",
                                        known->origin, known->symptom));
  }
}

bool Judgement::resumes_decide() {
  for (resume_ = 0; resume_ < phases_.resumes.size(); ++resume_) {
    const std::optional<PhaseOutcome>& outcome = resume().outcome;
    const bool decided = (outcome && harness_failed(*outcome, "resume_run")) ||
                         (outcome && unsupported(*outcome)) || refusal_judged() || resume_differs();
    if (decided) return true;
  }
  resume_ = 0;
  return false;
}

CaseResult Judgement::judge() {
  describe_case();
  try {
    const bool decided = harness_failed(phases_.save, "save_run") || unsupported(phases_.save) ||
                         save_run_failed() || resumes_decide() || golden_differs() || vacuous();
    if (!decided) result_.verdict = Verdict::pass;
  } catch (const Error& problem) {
    cannot_judge(problem.what());
  }
  if (result_.verdict == Verdict::error) {
    result_.failed_at = result_.symptom = "";
    for (auto& [oracle, answer] : result_.oracles) {
      if (answer == kFail) answer = kNotReached;
    }
  }
  mark_known_broken();
  return result_;
}

}  // namespace

Phases::Phases(PhaseRequest saves, std::vector<PhaseRequest> requests)
    : save_request(std::move(saves)) {
  for (PhaseRequest& request : requests) resumes.push_back({std::move(request), std::nullopt});
}

void Phases::run_resumes(const std::function<PhaseOutcome(const PhaseRequest&)>& run) {
  for (ResumeRun& one : resumes) {
    one.outcome = run(one.request);
    if (!one.outcome->ok()) return;
  }
}

void Phases::limit(double seconds) {
  save_request.limit_seconds = seconds;
  for (ResumeRun& one : resumes) one.request.limit_seconds = seconds;
}

std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char letter : text) {
    if (letter == '\'') {
      quoted += "'\\''";
    } else {
      quoted += letter;
    }
  }
  return quoted + "'";
}

CaseResult result_of(const Case& c) {
  CaseResult result;
  result.name = c.name();
  result.scenario = c.scenario->name;
  result.variant = c.scenario->variant;
  result.adapter = c.adapter;
  if (c.save_env) result.save_environment = {c.save_env->name, c.save_env->packages};
  if (c.load_env) result.load_environment = {c.load_env->name, c.load_env->packages};
  result.from = c.from.text();
  result.onto = c.onto.text();
  result.save_after = c.scenario->settings.save_after;
  result.device = c.device;
  result.transport = c.native() ? "mpi" : "none";
  result.again = "resumecheck run " + shell_quoted(c.name());
  for (const char* oracle : {"after_load", "trajectory", "golden"}) {
    result.oracles[oracle] = asks_for(*c.scenario, oracle) ? kNotReached : kNotApplicable;
  }
  if (!c.scenario->refusal.empty()) result.oracles["refusal"] = kNotReached;
  return result;
}

CaseResult judge(const Case& c, const Phases& phases, const fs::path& root,
                 const fs::path& artifacts) {
  return Judgement(c, phases, root, artifacts).judge();
}

}  // namespace resumecheck
