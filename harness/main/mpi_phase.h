// `resumecheck-mpi --phase REQUEST.json`: one phase of one case, this process being one of its
// ranks.
#pragma once

#include <filesystem>

namespace resumecheck {

// Returns the exit code: 0 also where the phase failed, which its exit record says; 3 where not
// even that could be written. Error(harness) for a request that cannot be read.
int run_phase_of_request(const std::filesystem::path& file, int* argc, char*** argv);

}  // namespace resumecheck
