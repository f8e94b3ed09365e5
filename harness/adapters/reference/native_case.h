// A native case whose ranks are all here: threads of this process, or processes of one MPI job.
// Both run the same phases, write the same files and are judged by the same code as ranks that were
// launched one job a phase.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "harness/phases/judgement.h"
#include "harness/phases/rank_files.h"

namespace resumecheck {

// From the records that the ranks of a phase left.
PhaseOutcome outcome_of_records(const PhaseRequest& request, FileTime began,
                                const std::string& process, const std::string& transport);

// Runs a phase with all its ranks and returns how they ended. Its folders are ready.
using RunPhase = std::function<PhaseOutcome(const PhaseRequest&)>;

struct NativeSaveRun {
  std::filesystem::path folder;
  PhaseRequest request;
  PhaseOutcome outcome;
};

// The save run, and what the harness does to its checkpoint. `folder` holds its states.
NativeSaveRun run_native_save(const Case& c, const std::filesystem::path& folder,
                              const RunPhase& run_phase, double limit_seconds = 120);

// The resumes from it, and the verdict. `folder` holds their states, `artifacts` what a failure
// leaves.
CaseResult resume_native_case(const Case& c, const NativeSaveRun& save,
                              const std::filesystem::path& root,
                              const std::filesystem::path& folder,
                              const std::filesystem::path& artifacts, const RunPhase& run_phase,
                              double limit_seconds = 120);

// With threads as ranks.
PhaseOutcome run_phase_on_threads(const PhaseRequest& request);

}  // namespace resumecheck
