#include "harness/main/rank_devices.h"

#include <unistd.h>

#include <exception>

#include "harness/adapters/reference/device_arithmetic.h"
#include "harness/adapters/reference/reference.h"
#include "harness/ranks/device_plan.h"
#include "harness/ranks/nccl_communicator.h"
#include "harness/state/exit_record.h"
#include "kernels/device_failure.h"

namespace resumecheck {
namespace {

std::string this_host() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return host;
}

// Its own exception and no peer's: the ranks never came to the phase.
void record_no_start(const PhaseRequest& request, int rank, const std::exception& failure) {
  const bool only_waited = dynamic_cast<const PeerFailed*>(&failure) != nullptr;
  ExitRecord record;
  record.phase = request.phase == "save_run" ? "save_run step 0" : "load";
  record.exception = {only_waited ? "PeerFailed" : std::string(kDeviceFailure), failure.what(), ""};
  write_exit_record(request.records, rank, record);
}

}  // namespace

RankDevices::RankDevices(Communicator& world, const std::string& device) {
  if (device != "cuda") {
    why_not_cuda_ = why_not_nccl_ = "the ranks compute on the CPU (--device " + device + ")";
    return;
  }
  VisibleDevices visible = {this_host(), {}};
  std::string problem;
  try {
    visible.bus_ids = device_bus_ids();
  } catch (const kernels::DeviceFailure& failure) {  // this rank has none then, and all hear of it
    problem = failure.what();
  }
  const DevicePlan plan = plan_devices(world, visible);
  why_not_cuda_ = plan.no_device;
  if (!problem.empty()) why_not_cuda_ += " (" + problem + ")";
  why_not_nccl_ = plan.not_nccl;
  if (why_not_nccl_.empty() && nccl_version().empty()) why_not_nccl_ = "this build has no NCCL";
  if (!why_not_cuda_.empty()) return;
  device_ = plan.device;
  arithmetic_ = device_arithmetic(device_);
}

std::string RankDevices::note() const {
  if (device_ < 0 || why_not_nccl_.empty()) return {};
  return "MPI carries the collectives through the host: " + why_not_nccl_;
}

void RankDevices::run_phase(const PhaseRequest& request, Communicator& ranks) const {
  std::unique_ptr<Communicator> over_nccl;
  try {
    if (why_not_nccl_.empty()) over_nccl = nccl_communicator(ranks, device_);
  } catch (const std::exception& failure) {
    record_no_start(request, ranks.rank(), failure);
    return;
  }
  run_reference_phase(request, over_nccl ? *over_nccl : ranks, arithmetic_);
}

}  // namespace resumecheck
