// The few parts of the CUDA runtime that the .cu files use, over host memory, so that its index
// arithmetic, launches, copies and barriers are tested where there is no device. Each thread of a
// block is a fiber; between two barriers the fibers run one after another in an order drawn anew,
// so a missing barrier gives other bits. Devices that several ranks use have streams, which work
// only when somebody asks for them, and can be lost in the middle. Only tests include this.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotReady = 600,
  cudaErrorLaunchFailure = 719,
  cudaErrorUnknown = 999
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
struct cudaDeviceProp {
  char name[256];
  int major, minor;
};

namespace cuda_stand_in {

struct Index {
  unsigned x = 0;
};

struct Fiber {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(64 * 1024);
  bool finished = false;
};

class Device {
 public:
  static Device& get() {
    static Device device;
    return device;
  }
  // Runs every block, one after another, with garbage in its shared memory and a fence behind it.
  void launch(unsigned blocks, int threads, std::size_t shared_bytes, void* shared,
              std::size_t shared_capacity, const std::function<void()>& kernel);
  void barrier() { swapcontext(&fibers_[running_].context, &scheduler_); }

  // After so many more of its calls about streams, each further one fails, as on a device that has
  // fallen off the bus.
  void lose(int device, int after_calls) {
    const std::scoped_lock lock(mutex_);
    calls_until_lost_[device] = after_calls;
  }
  void find_again() {
    const std::scoped_lock lock(mutex_);
    calls_until_lost_.clear();
  }
  cudaError_t status_of_call(int device) {
    const std::scoped_lock lock(mutex_);
    const auto lost = calls_until_lost_.find(device);
    if (lost == calls_until_lost_.end()) return cudaSuccess;
    if (lost->second == 0) return cudaErrorLaunchFailure;
    --lost->second;
    return cudaSuccess;
  }
  void allocated(void* memory, std::size_t bytes) {
    const std::scoped_lock lock(mutex_);
    allocations[memory] = bytes;
  }
  void freed(void* memory) {
    const std::scoped_lock lock(mutex_);
    allocations.erase(memory);
  }

  Index thread_index, block_index;
  std::map<void*, std::size_t> allocations;
  int allocations_until_failure = -1;  // -1: never
  cudaError_t count_status = cudaSuccess;
  int devices = 1;
  bool bytes_written_past_shared_memory = false;
  long launches = 0;

 private:
  static void run_fiber() {
    Device& device = get();
    (*device.kernel_)();
    device.fibers_[device.running_].finished = true;
  }
  void run_block();

  std::vector<Fiber> fibers_;
  ucontext_t scheduler_;
  std::size_t running_ = 0;
  const std::function<void()>* kernel_ = nullptr;
  std::mt19937 random_{1};
  std::mutex mutex_;  // ranks are threads
  std::map<int, int> calls_until_lost_;
};

inline thread_local int current_device = 0;

// Work in its order, done as far as it can be whenever somebody asks how far it is.
struct Stream {
  int device = 0;
  std::deque<std::function<bool()>> work;  // true once done
  bool is_idle() {
    while (!work.empty() && work.front()()) work.pop_front();
    return work.empty();
  }
};

inline void Device::run_block() {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < fibers_.size(); ++i) {
    Fiber& fiber = fibers_[i];
    fiber.finished = false;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.data();
    fiber.context.uc_stack.ss_size = fiber.stack.size();
    fiber.context.uc_link = &scheduler_;
    makecontext(&fiber.context, run_fiber, 0);
    order.push_back(i);
  }
  for (std::size_t finished = 0; finished < fibers_.size();) {
    std::shuffle(order.begin(), order.end(), random_);
    finished = 0;
    for (const std::size_t i : order) {
      running_ = i;
      thread_index.x = static_cast<unsigned>(i);
      swapcontext(&scheduler_, &fibers_[i].context);
      finished += fibers_[i].finished ? 1 : 0;
    }
    if (finished != 0 && finished != fibers_.size())
      throw std::logic_error("a thread returned while others wait at a barrier");
  }
}

inline void Device::launch(unsigned blocks, int threads, std::size_t shared_bytes, void* shared,
                           std::size_t shared_capacity, const std::function<void()>& kernel) {
  ++launches;
  kernel_ = &kernel;
  fibers_.resize(static_cast<std::size_t>(threads));
  auto* bytes = static_cast<unsigned char*>(shared);
  for (block_index.x = 0; block_index.x < blocks; ++block_index.x) {
    std::memset(bytes, 0xa5, shared_capacity);
    run_block();
    for (std::size_t i = shared_bytes; i < shared_capacity; ++i)
      if (bytes[i] != 0xa5) bytes_written_past_shared_memory = true;
  }
}

}  // namespace cuda_stand_in

#define threadIdx (cuda_stand_in::Device::get().thread_index)
#define blockIdx (cuda_stand_in::Device::get().block_index)
inline void __syncthreads() { cuda_stand_in::Device::get().barrier(); }

inline cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  auto& device = cuda_stand_in::Device::get();
  if (device.allocations_until_failure == 0) return cudaErrorMemoryAllocation;
  if (device.allocations_until_failure > 0) --device.allocations_until_failure;
  *memory = std::malloc(bytes);
  std::memset(*memory, 0xa5, bytes);
  device.allocated(*memory, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {
  cuda_stand_in::Device::get().freed(memory);
  std::free(memory);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* onto, const void* from, std::size_t bytes, cudaMemcpyKind) {
  std::memcpy(onto, from, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int* count) {
  const cudaError_t status = cuda_stand_in::Device::get().count_status;
  *count = status == cudaSuccess ? cuda_stand_in::Device::get().devices : 0;
  return status;
}
inline cudaError_t cudaGetDevice(int* device) {
  return *device = cuda_stand_in::current_device, cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= cuda_stand_in::Device::get().devices) return cudaErrorInvalidDevice;
  cuda_stand_in::current_device = device;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  const std::string id = "0000:0" + std::to_string(device) + ":00.0";
  if (static_cast<std::size_t>(length) <= id.size()) return cudaErrorUnknown;
  std::memcpy(text, id.c_str(), id.size() + 1);
  return cudaSuccess;
}

using cudaStream_t = cuda_stand_in::Stream*;
constexpr unsigned cudaStreamNonBlocking = 1;
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new cuda_stand_in::Stream{cuda_stand_in::current_device, {}};
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) { return delete stream, cudaSuccess; }
inline cudaError_t cudaMemcpyAsync(void* onto, const void* from, std::size_t bytes, cudaMemcpyKind,
                                   cudaStream_t stream) {
  stream->work.emplace_back([=] { return std::memcpy(onto, from, bytes), true; });
  return cuda_stand_in::Device::get().status_of_call(stream->device);
}
inline cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const cudaError_t status = cuda_stand_in::Device::get().status_of_call(stream->device);
  if (status != cudaSuccess) return status;
  return stream->is_idle() ? cudaSuccess : cudaErrorNotReady;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::strcpy(properties->name, "stand-in");
  properties->major = 9;
  properties->minor = 0;
  return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
inline cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 12080, cudaSuccess; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline const char* cudaGetErrorName(cudaError_t status) {
  if (status == cudaErrorLaunchFailure) return "cudaErrorLaunchFailure";
  return status == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorUnknown";
}
inline const char* cudaGetErrorString(cudaError_t status) {
  if (status == cudaErrorLaunchFailure) return "unspecified launch failure";
  return status == cudaErrorMemoryAllocation ? "out of memory" : "unknown error";
}

// A kernel name in parentheses, so that template arguments may have commas.
#define RESUMECHECK_LAUNCH(kernel, blocks, shared_bytes, ...)                           \
  cuda_stand_in::Device::get().launch(static_cast<unsigned>(blocks), threads_per_block, \
                                      shared_bytes, shared_words, sizeof shared_words,  \
                                      [&] { kernel(__VA_ARGS__); })
