// The few parts of NCCL that nccl_communicator.cpp uses, over host memory and the CUDA stand-in,
// between threads of one process. As in NCCL, nothing is checked between ranks: a call that one
// rank leaves out, or makes with another length, simply never ends. Each rank's calls are recorded.
// Only tests include this.
#pragma once

#include <cuda_runtime.h>  // the stand-in

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

enum ncclResult_t { ncclSuccess = 0, ncclInvalidUsage = 5, ncclInProgress = 7 };
enum ncclDataType_t { ncclUint8 = 1, ncclUint32 = 3 };
enum ncclRedOp_t { ncclMax = 2 };
struct ncclUniqueId {
  char internal[128];
};
struct ncclConfig_t {
  int blocking;
};
#define NCCL_CONFIG_INITIALIZER \
  { 1 }

namespace nccl_stand_in {

struct Arrived {
  std::string signature;
  const void* from = nullptr;
  void* onto = nullptr;
  bool done = false;
};

// The ranks that share an id.
struct Group {
  std::mutex mutex;
  std::map<int, int> device_of;
  bool aborted = false;  // by a rank whose memory may be gone: nothing is carried any more
  std::map<int, std::vector<std::string>> calls;       // of each rank, in its order
  std::map<std::size_t, std::map<int, Arrived>> open;  // the nth collective
};

// What goes wrong on purpose, once, in this rank's nth collective.
struct Fault {
  enum class Kind { none, dropped, wrong_length } kind = Kind::none;
  int rank = 0;
  std::size_t collective = 0;
};

class World {
 public:
  static World& get() {
    static World world;
    return world;
  }
  std::shared_ptr<Group> group(const ncclUniqueId& id) {
    const std::scoped_lock lock(mutex_);
    auto& found = groups_[id.internal];
    if (!found) found = std::make_shared<Group>();
    return last_ = found;
  }
  ncclUniqueId new_id() {
    const std::scoped_lock lock(mutex_);
    ncclUniqueId id = {};
    std::strcpy(id.internal, std::to_string(++ids_).c_str());
    return id;
  }
  std::shared_ptr<Group> last() const { return last_; }
  Fault fault;
  int living = 0;  // communicators that nobody has destroyed
  void lived(int change) {
    const std::scoped_lock lock(mutex_);
    living += change;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Group>> groups_;
  std::shared_ptr<Group> last_;
  int ids_ = 0;
};

struct Comm {
  std::shared_ptr<Group> group;
  int rank = 0, size = 0;
  std::size_t collectives = 0;
};

using Carry = std::function<void(const std::map<int, Arrived>&)>;

inline bool all_agree(const std::map<int, Arrived>& arrived, int size) {
  if (arrived.size() != static_cast<std::size_t>(size)) return false;
  for (const auto& [rank, one] : arrived) {
    if (one.signature != arrived.begin()->second.signature) return false;
  }
  return true;
}

// Queued on the stream: arrives when its turn has come, and is done when all have arrived.
inline ncclResult_t collective(Comm& comm, const std::string& name, const void* from, void* onto,
                               std::size_t count, cudaStream_t stream, const Carry& carry) {
  const std::size_t number = comm.collectives++;
  const Fault& fault = World::get().fault;
  const bool faulty = fault.rank == comm.rank && fault.collective == number;
  if (faulty && fault.kind == Fault::Kind::dropped) return ncclSuccess;
  if (faulty && fault.kind == Fault::Kind::wrong_length) ++count;
  const std::string signature = name + " " + std::to_string(count);
  {
    const std::scoped_lock lock(comm.group->mutex);
    comm.group->calls[comm.rank].push_back(signature);
  }
  const auto group = comm.group;
  const int rank = comm.rank, size = comm.size;
  stream->work.emplace_back([=] {
    const std::scoped_lock lock(group->mutex);
    auto& arrived = group->open[number];
    if (arrived.count(rank) == 0) arrived[rank] = {signature, from, onto, false};
    if (!arrived[rank].done && !group->aborted && all_agree(arrived, size)) {
      carry(arrived);
      for (auto& [other, one] : arrived) one.done = true;
    }
    return arrived[rank].done;
  });
  return ncclInProgress;
}

}  // namespace nccl_stand_in

using ncclComm_t = nccl_stand_in::Comm*;

inline ncclResult_t ncclGetVersion(int* version) { return *version = 22800, ncclSuccess; }
inline ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return *id = nccl_stand_in::World::get().new_id(), ncclSuccess;
}
inline ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                           const ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidUsage;  // whoever waits in it waits for ever
  auto& world = nccl_stand_in::World::get();
  *comm = new nccl_stand_in::Comm{world.group(id), rank, size, 0};
  world.lived(1);
  const std::scoped_lock lock((*comm)->group->mutex);
  (*comm)->group->device_of[rank] = cuda_stand_in::current_device;
  return ncclInProgress;
}
// Two ranks on one device are refused once all are there, on every rank.
inline ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const std::scoped_lock lock(comm->group->mutex);
  std::set<int> devices;
  for (const auto& [rank, device] : comm->group->device_of) devices.insert(device);
  const bool all_there = comm->group->device_of.size() == static_cast<std::size_t>(comm->size);
  *state = !all_there                                               ? ncclInProgress
           : devices.size() != static_cast<std::size_t>(comm->size) ? ncclInvalidUsage
                                                                    : ncclSuccess;
  return ncclSuccess;
}
inline ncclResult_t ncclAllGather(const void* from, void* onto, std::size_t count, ncclDataType_t,
                                  ncclComm_t comm, cudaStream_t stream) {
  return nccl_stand_in::collective(
      *comm, "all_gather of bytes", from, onto, count, stream,
      [count](const std::map<int, nccl_stand_in::Arrived>& arrived) {
        for (const auto& [reader, its] : arrived) {
          for (const auto& [writer, other] : arrived) {
            std::memcpy(static_cast<char*>(its.onto) + static_cast<std::size_t>(writer) * count,
                        other.from, count);
          }
        }
      });
}
inline ncclResult_t ncclAllReduce(const void* from, void* onto, std::size_t count, ncclDataType_t,
                                  ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return nccl_stand_in::collective(
      *comm, "max of uint32", from, onto, count, stream,
      [count](const std::map<int, nccl_stand_in::Arrived>& arrived) {
        std::vector<std::uint32_t> most(count, 0);
        for (const auto& [writer, other] : arrived) {
          for (std::size_t i = 0; i < count; ++i) {
            most[i] = std::max(most[i], static_cast<const std::uint32_t*>(other.from)[i]);
          }
        }
        for (const auto& [reader, its] : arrived) std::memcpy(its.onto, most.data(), 4 * count);
      });
}
inline ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclInProgress; }
inline ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  nccl_stand_in::World::get().lived(-1);
  return ncclSuccess;
}
inline ncclResult_t ncclCommAbort(ncclComm_t comm) {
  {
    const std::scoped_lock lock(comm->group->mutex);
    comm->group->aborted = true;
  }
  return ncclCommDestroy(comm);
}
inline const char* ncclGetErrorString(ncclResult_t status) {
  return status == ncclInvalidUsage ? "invalid usage" : "unknown error";
}
inline const char* ncclGetLastError(ncclComm_t) { return "two ranks on one device"; }
