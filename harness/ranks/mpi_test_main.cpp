// The main function of test programs that run under mpirun.
#include <gtest/gtest.h>

#include <optional>

#include "harness/ranks/merged_listener.h"
#include "harness/ranks/mpi_communicator.h"
#include "harness/ranks/mpi_test_job.h"

namespace resumecheck {
namespace {
MpiJob* job = nullptr;
}
MpiJob& test_job() { return *job; }
}  // namespace resumecheck

int main(int argc, char** argv) {
  resumecheck::MpiJob job(&argc, &argv, 60);
  resumecheck::job = &job;
  testing::InitGoogleTest(&argc, argv);
  resumecheck::merge_ranks(job.world());
  return resumecheck::run_merged_tests(job.world());
}
