// How a test that runs under mpirun reaches its job. The world communicator belongs to the listener
// that merges the ranks' results; a test takes a part of its own.
#pragma once

#include "harness/ranks/mpi_communicator.h"

namespace resumecheck {

MpiJob& test_job();

}  // namespace resumecheck
