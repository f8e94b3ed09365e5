// For tests: logical states written down element by element.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "harness/state/assembly.h"

namespace resumecheck {

template <typename T>
LogicalTensor tensor_of(Dtype dtype, Shape shape, const std::vector<T>& elements,
                        std::int64_t block = 0) {
  LogicalTensor tensor{dtype, std::move(shape), block, Bytes(elements.size() * sizeof(T))};
  std::memcpy(tensor.bytes.data(), elements.data(), tensor.bytes.size());
  return tensor;
}

inline LogicalTensor floats(const std::vector<float>& values, std::int64_t block = 0) {
  return tensor_of(Dtype::f32, {static_cast<std::int64_t>(values.size())}, values, block);
}

template <typename T>
void set_element(LogicalTensor& tensor, std::int64_t index, T element) {
  std::memcpy(tensor.bytes.data() + index * sizeof(T), &element, sizeof(T));
}

template <typename T>
T element(const LogicalTensor& tensor, std::int64_t index) {
  T result;
  std::memcpy(&result, tensor.bytes.data() + index * sizeof(T), sizeof(T));
  return result;
}

}  // namespace resumecheck
