// From what two phases left behind to a verdict. Pure but for reading state files: the same code
// judges separate jobs, forked rank servers and cases inside one MPI job.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "harness/compare/case_result.h"
#include "harness/phases/phase_outcome.h"
#include "harness/phases/phase_request.h"

namespace resumecheck {

struct ResumeRun {
  PhaseRequest request;
  std::optional<PhaseOutcome> outcome;  // nothing: not reached, as a run before it failed
};

struct Phases {
  PhaseRequest save_request;
  PhaseOutcome save;
  std::vector<ResumeRun> resumes;  // one, or several in a row: resume_run_requests

  Phases() = default;
  Phases(PhaseRequest saves, std::vector<PhaseRequest> resumes);

  // In their order, until one fails.
  void run_resumes(const std::function<PhaseOutcome(const PhaseRequest&)>& run);
  void limit(double seconds);  // of each phase
};

// What is known of a case before anything ran: names, environments, the command to run it again.
// Verdict ERROR until something is found out.
CaseResult result_of(const Case& c);
std::string shell_quoted(const std::string& text);

// Of several resumes in a row each is judged as the only one would be, in their order; the symptom
// says which of them failed. Order: save run failed -> FAIL at "save_run step k" | "save" (state
// files of steps reached are not compared further); resume failed in load -> FAIL at "load";
// after_load comparison; resume failed in step k (after comparing the steps before it); trajectory
// per step; golden per step on both runs; vacuity; then known_broken turns FAIL into XFAIL (symptom
// is a substring of "failed_at: symptom") and PASS into XPASS. want/got artifacts of a failing
// comparison are written into `artifacts` (created only then). `root`: project root, for golden/.
CaseResult judge(const Case& c, const Phases& phases, const std::filesystem::path& root,
                 const std::filesystem::path& artifacts);

}  // namespace resumecheck
