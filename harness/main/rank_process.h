// What a process needs to know and promise as one rank of a launched job, before MPI starts: who it
// is, that it dies with its launcher, and that a signal makes it say where it stands.
#pragma once

#include <filesystem>

namespace resumecheck {

int launched_rank();   // from the launcher's environment; 0 where nobody launched it
int launched_ranks();  // 1 where nobody launched it
bool launched();       // by mpirun, srun or their kin

// Killed when the launcher dies, so that no rank outlives the harness. Nothing where there is no
// launcher.
void die_with_launcher();

// SIGUSR1 from now on writes the main thread's stack into the file (appended, made on demand).
// Called again, it changes the file.
void write_stack_on_signal(const std::filesystem::path& file);

}  // namespace resumecheck
