#include "harness/ranks/device_plan.h"

#include <map>
#include <utility>

namespace resumecheck {
namespace {

std::vector<std::string> gathered(Communicator& ranks, const std::string& mine) {
  std::vector<std::string> all;
  for (const Bytes& bytes : ranks.all_gather(std::as_bytes(std::span(mine.data(), mine.size())))) {
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return all;
}

std::size_t place_on_host(const std::vector<std::string>& hosts, int rank) {
  std::size_t before = 0;
  for (int other = 0; other < rank; ++other) {
    if (hosts[static_cast<std::size_t>(other)] == hosts[static_cast<std::size_t>(rank)]) ++before;
  }
  return before;
}

std::string why_shared(const std::vector<std::string>& hosts, const std::vector<std::string>& ids) {
  std::map<std::pair<std::string, std::string>, std::size_t> taken;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto [first, is_new] = taken.try_emplace({hosts[rank], ids[rank]}, rank);
    if (is_new) continue;
    return "ranks " + std::to_string(first->second) + " and " + std::to_string(rank) + " of " +
           hosts[rank] + " share the CUDA device " + ids[rank];
  }
  return {};
}

}  // namespace

DevicePlan plan_devices(Communicator& ranks, const VisibleDevices& visible) {
  const std::vector<std::string> hosts = gathered(ranks, visible.host);
  DevicePlan plan;
  std::string id;
  if (!visible.bus_ids.empty()) {
    const std::size_t turn = place_on_host(hosts, ranks.rank()) % visible.bus_ids.size();
    plan.device = static_cast<int>(turn);
    id = visible.bus_ids[turn];
  }
  const std::vector<std::string> ids = gathered(ranks, id);
  for (std::size_t rank = 0; rank < ids.size() && plan.no_device.empty(); ++rank) {
    if (!ids[rank].empty()) continue;
    plan.no_device = "rank " + std::to_string(rank) + " sees no CUDA device on " + hosts[rank];
  }
  plan.not_nccl = plan.no_device.empty() ? why_shared(hosts, ids) : plan.no_device;
  return plan;
}

}  // namespace resumecheck
