#include "harness/main/mpi_phase.h"

#include <cstdlib>
#include <cstring>

#include "harness/main/rank_devices.h"
#include "harness/main/rank_process.h"
#include "harness/ranks/mpi_communicator.h"

namespace resumecheck {

int run_phase_of_request(const std::filesystem::path& file, int* argc, char*** argv) {
  const PhaseRequest request = read_phase_request(file);
  std::filesystem::create_directories(request.records);
  write_stack_on_signal(request.records /
                        ("stacks_rank" + std::to_string(launched_rank()) + ".txt"));
  // The harness, not a rank, decides when a phase has taken too long.
  MpiJob job(argc, argv, 10 * request.limit_seconds + 60);
  RankDevices(job.world(), request.device).run_phase(request, job.world());
  return 0;
}

}  // namespace resumecheck
