// One phase as one launch of all its ranks: what native programs always get, Python ones under
// --cold. The launcher's exit status says little (Open MPI reports one rank of many and ends the
// others), so what each rank left behind is asked first and the launcher's words second.
#pragma once

#include <string>
#include <vector>

#include "harness/phases/launcher.h"
#include "harness/phases/phase_outcome.h"
#include "harness/phases/phase_request.h"

namespace resumecheck {

struct FreshStart {
  Launcher launcher;
  std::vector<std::string> program;  // the request file is its last argument
  double start_limit = 300;          // seconds until the first rank announces a phase
  double grace = 3;                  // seconds the others have once a rank has failed
  // Seconds a launcher has to end once none of its ranks is left: Open MPI can wait for ever for
  // one that died while it was being started.
  double linger_limit = 10;
};

// The request's own limit counts from the first announcement. Throws Interrupted.
PhaseOutcome run_fresh(const FreshStart& start, const PhaseRequest& request);

// What launchers say of ranks that died: rank -> signal or exit status.
struct LauncherReport {
  int rank = 0;
  int signal = 0;
  int exit_status = 0;
};
std::vector<LauncherReport> read_launcher_output(const std::string& output);

}  // namespace resumecheck
