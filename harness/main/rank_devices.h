// The CUDA devices of a job's ranks, and what carries what the ranks say to each other. A result
// must say truly what carried it: NCCL only where every rank has a device of its own.
#pragma once

#include <memory>
#include <string>

#include "harness/adapters/reference/arithmetic.h"
#include "harness/phases/phase_request.h"
#include "harness/ranks/communicator.h"

namespace resumecheck {

class RankDevices {
 public:
  // Called by all processes of the job together. device: "cpu" or "cuda".
  RankDevices(Communicator& world, const std::string& device);

  // Why these ranks cannot compute on devices, or NCCL not carry them, naming rank and device;
  // empty: they can.
  const std::string& why_not_cuda() const { return why_not_cuda_; }
  const std::string& why_not_nccl() const { return why_not_nccl_; }
  std::string note() const;  // where devices are used and MPI carries; else empty

  // One phase on one rank, on its device and over NCCL where there is one for each. Whatever
  // happens, an exit record says so.
  void run_phase(const PhaseRequest& request, Communicator& ranks) const;

 private:
  int device_ = -1;
  std::string why_not_cuda_, why_not_nccl_;
  std::shared_ptr<const Arithmetic> arithmetic_;
};

}  // namespace resumecheck
