// Ranks as the processes of one MPI job. Nothing here may leave a collective unfinished behind it:
// a rank that fails still comes to the next call and says there that it has failed, so that the job
// stays usable for the next case.
#pragma once

#include "harness/ranks/communicator.h"

namespace resumecheck {

constexpr double kMpiLimitSeconds = 600;

// MPI from MPI_Init to MPI_Finalize; one a process. Error(harness) where MPI cannot start.
class MpiJob {
 public:
  MpiJob(int* argc, char*** argv, double limit_seconds = kMpiLimitSeconds);
  ~MpiJob();
  MpiJob(const MpiJob&) = delete;
  MpiJob& operator=(const MpiJob&) = delete;

  Communicator& world() { return *world_; }

  // Called by every process of the job: those with member take part, ordered by `order`; the others
  // get nothing.
  std::unique_ptr<Communicator> part(bool member, int order);

  // Ends every process of the job at once; the launcher returns `exit_code`.
  [[noreturn]] static void abort(int exit_code);

 private:
  double limit_seconds_;
  std::unique_ptr<Communicator> world_;
};

}  // namespace resumecheck
