#include "harness/main/mpi_phase.h"

#include <cstdlib>
#include <cstring>

#include "harness/adapters/reference/device_arithmetic.h"
#include "harness/adapters/reference/reference.h"
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
  std::shared_ptr<const Arithmetic> arithmetic;
  if (request.device == "cuda" && usable_devices() > 0) arithmetic = device_arithmetic();
  run_reference_phase(request, job.world(), arithmetic);
  return 0;
}

}  // namespace resumecheck
