// All ranks agree about a call over the carrier before any payload goes to NCCL, since NCCL checks
// neither that ranks make the same call nor that their lengths fit. Payloads are bytes, padded to
// the longest; there is no sum. Nothing here blocks: every wait polls the communicator and the
// stream and has a limit, and ends with ncclCommAbort, or a lost device would leave all hanging.
#include "harness/ranks/nccl_communicator.h"

#include <cuda_runtime.h>
#include <nccl.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "harness/state/error.h"
#include "kernels/device_memory.h"

namespace resumecheck {
namespace {

using kernels::DeviceArray;
using kernels::DeviceFailure;

enum class Call : std::uint64_t { barrier = 1, all_gather = 2, all_reduce_max = 3 };

const char* name_of(Call call) {
  switch (call) {
    case Call::barrier:
      return "barrier";
    case Call::all_gather:
      return "all_gather";
    case Call::all_reduce_max:
      return "all_reduce_max";
  }
  return "an unknown call";
}

struct Header {
  Call call = Call::barrier;
  std::uint64_t length = 0;  // bytes
};

class NcclRank final : public Communicator {
 public:
  NcclRank(Communicator& carrier, int device, double limit_seconds)
      : carrier_(carrier), device_(device), limit_(limit_seconds) {
    try {
      check(cudaSetDevice(device_), "choosing the device");
      check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
      connect(shared_id());
    } catch (const std::exception& problem) {
      release();
      carrier_.leave(problem.what());
      throw;
    }
  }
  ~NcclRank() override {
    if (!over_) finalize();
    release();
  }
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;

  int rank() const override { return carrier_.rank(); }
  int size() const override { return carrier_.size(); }
  std::string_view transport() const override { return "nccl"; }
  void barrier() override { agree(Call::barrier, 0); }

  std::vector<Bytes> all_gather(std::span<const std::byte> mine) override {
    const std::vector<Header> headers = agree(Call::all_gather, mine.size());
    std::size_t longest = 0;
    for (const Header& header : headers) longest = std::max<std::size_t>(longest, header.length);
    Bytes all(longest * headers.size());
    if (longest > 0) payload([&] { gather(mine, longest, all); });
    std::vector<Bytes> result;
    result.reserve(headers.size());
    for (std::size_t other = 0; other < headers.size(); ++other) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(other * longest);
      result.emplace_back(first, first + static_cast<std::ptrdiff_t>(headers[other].length));
    }
    return result;
  }

  void all_reduce_max(std::span<std::uint32_t> values) override {
    for (const Header& header : agree(Call::all_reduce_max, values.size_bytes())) {
      if (header.length == values.size_bytes()) continue;
      give_up();  // on every rank alike: all see the same headers
      throw Error(Error::Kind::harness, "ranks", "ranks reduce different numbers of values");
    }
    if (!values.empty()) payload([&] { reduce_max(values); });
  }

  void leave(std::string_view why) override {
    give_up();
    carrier_.leave(why);
  }

 private:
  ncclUniqueId shared_id() {
    ncclUniqueId id = {};
    if (rank() == 0) check(ncclGetUniqueId(&id), "asking for an id");
    const Bytes first = carrier_.all_gather(std::as_bytes(std::span(&id, 1)))[0];
    std::memcpy(&id, first.data(), sizeof id);
    return id;
  }

  void connect(const ncclUniqueId& id) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    check(ncclCommInitRankConfig(&nccl_, size(), id, rank(), &config), "connecting the ranks");
    wait_for([this] { return nccl_is_ready("connecting the ranks"); }, "connecting the ranks");
  }

  // The same decision on all ranks, or the same exception.
  std::vector<Header> agree(Call call, std::size_t length) {
    if (over_) {
      throw Error(Error::Kind::harness, "ranks", "a call on ranks that have already failed");
    }
    check_stream(name_of(call));  // a device that is lost already must be said before the payload
    const Header mine = {call, length};
    std::vector<Header> headers;
    headers.reserve(static_cast<std::size_t>(size()));
    try {
      for (const Bytes& bytes : carrier_.all_gather(std::as_bytes(std::span(&mine, 1)))) {
        std::memcpy(&headers.emplace_back(), bytes.data(), sizeof mine);
      }
    } catch (const std::exception&) {
      give_up();
      throw;
    }
    for (std::size_t other = 0; other < headers.size(); ++other) {
      if (headers[other].call == headers[0].call) continue;
      give_up();
      throw Error(Error::Kind::harness, "ranks",
                  "rank " + std::to_string(other) + " calls " + name_of(headers[other].call) +
                      " while rank 0 calls " + name_of(headers[0].call));
    }
    return headers;
  }

  // A device that fails is this rank's own failure, which the caller tells the others (leave).
  // Silence is not: the carrier says whose it was.
  template <class Work>
  void payload(Work work) {
    try {
      work();
    } catch (const DeviceFailure&) {
      give_up();
      throw;
    } catch (const Error&) {
      give_up();
      carrier_.barrier();
      throw;
    }
  }

  void gather(std::span<const std::byte> mine, std::size_t longest, Bytes& all) {
    reserve(longest, all.size());
    if (!mine.empty()) to_device(mine);
    check(ncclAllGather(send_->data(), receive_->data(), longest, ncclUint8, nccl_, stream_),
          "all_gather");
    from_device(all);
  }

  void reduce_max(std::span<std::uint32_t> values) {
    reserve(values.size_bytes(), values.size_bytes());
    to_device(std::as_bytes(values));
    check(ncclAllReduce(send_->data(), receive_->data(), values.size(), ncclUint32, ncclMax, nccl_,
                        stream_),
          "all_reduce_max");
    from_device(std::as_writable_bytes(values));
  }

  void reserve(std::size_t send, std::size_t receive) {
    if (send > send_bytes_) send_.emplace(static_cast<std::int64_t>(send_bytes_ = send));
    if (receive > receive_bytes_) {
      receive_.emplace(static_cast<std::int64_t>(receive_bytes_ = receive));
    }
  }

  void to_device(std::span<const std::byte> bytes) {
    check(
        cudaMemcpyAsync(send_->data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream_),
        "copying to the device");
    wait_for([this] { return check_stream("copying to the device"); }, "copying to the device");
  }

  // Waits for NCCL first: a copy back would block behind a collective that never ends.
  void from_device(std::span<std::byte> bytes) {
    const auto is_done = [this] { return nccl_is_ready("a payload") && check_stream("a payload"); };
    wait_for(is_done, "a payload");
    check(cudaMemcpyAsync(bytes.data(), receive_->data(), bytes.size(), cudaMemcpyDeviceToHost,
                          stream_),
          "copying from the device");
    wait_for([this] { return check_stream("copying back"); }, "copying from the device");
  }

  bool nccl_is_ready(const char* doing) {
    ncclResult_t state = ncclSuccess;
    check(ncclCommGetAsyncError(nccl_, &state), doing);
    check(state, doing);
    return state != ncclInProgress;
  }

  bool check_stream(const char* doing) {
    const cudaError_t status = cudaStreamQuery(stream_);
    if (status == cudaErrorNotReady) return false;
    check(status, doing);
    return true;
  }

  template <class IsDone>
  void wait_for(IsDone is_done, const char* doing) {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    for (int polls = 0; !is_done(); ++polls) {
      if (polls < 100) {
        sched_yield();
        continue;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(polls < 1000 ? 20 : 500));
      if (std::chrono::duration<double>(Clock::now() - begin).count() < limit_) continue;
      throw Error(
          Error::Kind::harness, place(),
          std::string("NCCL: ") + doing + " was not done within " + std::to_string(limit_) + " s",
          "a rank hangs or has lost its device");
    }
  }

  std::string place() const {
    return "rank " + std::to_string(rank()) + " on CUDA device " + std::to_string(device_);
  }

  void check(cudaError_t status, const char* doing) const {
    if (status == cudaSuccess) return;
    throw DeviceFailure(place() + ": CUDA, while " + doing + ": " + cudaGetErrorName(status) +
                        " (" + cudaGetErrorString(status) + ")");
  }
  void check(ncclResult_t status, const char* doing) const {
    if (status == ncclSuccess || status == ncclInProgress) return;
    throw DeviceFailure(place() + ": NCCL, while " + doing + ": " + ncclGetErrorString(status) +
                        " (" + ncclGetLastError(nccl_) + ")");
  }

  void give_up() {
    over_ = true;
    if (nccl_ != nullptr) ncclCommAbort(nccl_);
    nccl_ = nullptr;
  }

  // Waits until no rank reads this one's memory any more.
  void finalize() {
    try {
      check(ncclCommFinalize(nccl_), "ending");
      wait_for([this] { return nccl_is_ready("ending"); }, "ending");
      ncclCommDestroy(nccl_);
      nccl_ = nullptr;
    } catch (const std::exception&) {  // what the ranks had to say has been said
    }
  }

  void release() {
    give_up();
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    stream_ = nullptr;
  }

  Communicator& carrier_;
  int device_;
  double limit_;
  cudaStream_t stream_ = nullptr;
  ncclComm_t nccl_ = nullptr;
  std::optional<DeviceArray<std::byte>> send_, receive_;
  std::size_t send_bytes_ = 0, receive_bytes_ = 0;
  bool over_ = false;  // a call has failed: nothing can be agreed on any more
};

}  // namespace

std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return {};
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

std::unique_ptr<Communicator> nccl_communicator(Communicator& carrier, int device,
                                                double limit_seconds) {
  return std::make_unique<NcclRank>(carrier, device, limit_seconds);
}

}  // namespace resumecheck
