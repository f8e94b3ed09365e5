// Which CUDA device each rank takes, and whether NCCL can carry what the ranks say to each other.
// Counting is not enough: a launcher may show each process all devices of its host or only one of
// its own, so two ranks share a device only if it lies in the same place of the same host.
#pragma once

#include <string>
#include <vector>

#include "harness/ranks/communicator.h"

namespace resumecheck {

// What one process sees: its host and where each of its visible devices lies (PCI bus id).
struct VisibleDevices {
  std::string host;
  std::vector<std::string> bus_ids;
};

struct DevicePlan {
  int device = -1;        // that this rank computes on; -1: it sees none
  std::string no_device;  // names the first rank that has none; empty: every rank has one
  std::string not_nccl;   // why NCCL cannot carry these ranks; empty: a device for each
};

// Called by all ranks together; device, the rank's own, aside, all get the same answer. Ranks of a
// host take its devices in turn.
DevicePlan plan_devices(Communicator& ranks, const VisibleDevices& visible);

}  // namespace resumecheck
