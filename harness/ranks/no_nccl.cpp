// What a build without NCCL has instead: a version that is empty, and a clear refusal.
#include "harness/ranks/nccl_communicator.h"
#include "harness/state/error.h"

namespace resumecheck {

std::string nccl_version() { return {}; }

std::unique_ptr<Communicator> nccl_communicator(Communicator&, int, double) {
  throw Error(Error::Kind::harness, "nccl", "this build has no NCCL",
              "configure it where nccl.h and libnccl are, with -DRESUMECHECK_CUDA=ON");
}

}  // namespace resumecheck
