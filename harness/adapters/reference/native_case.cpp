#include "harness/adapters/reference/native_case.h"

#include <chrono>

#include "harness/adapters/reference/reference.h"
#include "harness/phases/checkpoint_guard.h"
#include "harness/ranks/thread_communicator.h"

namespace resumecheck {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

PhaseOutcome outcome_of_records(const PhaseRequest& request, FileTime began,
                                const std::string& process, const std::string& transport) {
  PhaseOutcome outcome;
  outcome.process = process;
  outcome.transport = transport;
  for (int rank = 0; rank < request.mesh.world(); ++rank) {
    outcome.ranks.push_back(read_rank_end(request.records, rank, began));
    if (outcome.ranks.back().record) {
      outcome.seconds = std::max(outcome.seconds, outcome.ranks.back().record->seconds);
    }
  }
  return outcome;
}

NativeSaveRun run_native_save(const Case& c, const std::filesystem::path& folder,
                              const RunPhase& run_phase, double limit_seconds) {
  NativeSaveRun save;
  save.folder = folder;
  save.request = save_run_request(c, folder);
  save.request.limit_seconds = limit_seconds;
  prepare_phase(save.request);
  save.outcome = run_phase(save.request);
  if (save.outcome.ok()) damage_checkpoint(save.request.checkpoint, c.scenario->faults);
  return save;
}

CaseResult resume_native_case(const Case& c, const NativeSaveRun& save,
                              const std::filesystem::path& root,
                              const std::filesystem::path& folder,
                              const std::filesystem::path& artifacts, const RunPhase& run_phase,
                              double limit_seconds) {
  const auto begin = std::chrono::steady_clock::now();
  Phases phases(save.request, resume_run_requests(c, save.folder, folder));
  phases.limit(limit_seconds);
  phases.save = save.outcome;
  if (save.outcome.ok()) {
    phases.run_resumes([&](const PhaseRequest& request) {
      prepare_phase(request);
      return run_phase(request);
    });
  }
  CaseResult result = judge(c, phases, root, artifacts);
  result.seconds = seconds_since(begin);
  return result;
}

PhaseOutcome run_phase_on_threads(const PhaseRequest& request) {
  const FileTime began = FileTime::clock::now();
  run_ranks(request.mesh.world(),
            [&](Communicator& ranks) { run_reference_phase(request, ranks); });
  return outcome_of_records(request, began, "same", "threads");
}

}  // namespace resumecheck
