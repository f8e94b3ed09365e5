// Memory of a CUDA device with an owner, and CUDA errors with the name of what failed. A pointer
// without an owner would leak on the first exception, and an unchecked call would hand back the
// host buffers unchanged, which look like a result.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/device_failure.h"

namespace resumecheck::kernels {

inline void check_cuda(cudaError_t status, const char* doing) {
  if (status == cudaSuccess) return;
  throw DeviceFailure(std::string("kernels: CUDA, while ") + doing + ": " +
                      cudaGetErrorName(status) + " (" + cudaGetErrorString(status) + ")");
}

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::int64_t count) : bytes_(static_cast<std::size_t>(count) * sizeof(T)) {
    if (bytes_ > 0)
      check_cuda(cudaMalloc(reinterpret_cast<void**>(&data_), bytes_), "allocating memory");
  }
  DeviceArray(const void* host, std::int64_t count) : DeviceArray(count) {
    if (bytes_ > 0)
      check_cuda(cudaMemcpy(data_, host, bytes_, cudaMemcpyHostToDevice), "copying to the device");
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  T* data() const { return data_; }
  void copy_to(void* host) const {
    if (bytes_ > 0)
      check_cuda(cudaMemcpy(host, data_, bytes_, cudaMemcpyDeviceToHost),
                 "copying from the device");
  }

 private:
  T* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace resumecheck::kernels
