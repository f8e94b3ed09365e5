#include "harness/state/digest.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <memory>

namespace resumecheck {
namespace {

class Hash {
 public:
  Hash() : state_(XXH3_createState(), &XXH3_freeState) { XXH3_128bits_reset(state_.get()); }
  void add(std::span<const std::byte> bytes) {
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  }
  // Texts end in a zero byte, so that "ab" + "c" and "a" + "bc" differ.
  void add(std::string_view text) {
    XXH3_128bits_update(state_.get(), text.data(), text.size());
    XXH3_128bits_update(state_.get(), "", 1);
  }
  std::string text() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_;
};

// The type is part of a value: 1 and 1.0 and "1" are different states.
std::string typed_text(const Value& value) {
  static constexpr const char* kTypes[] = {"bool", "integer", "number", "text"};
  return std::string(kTypes[value.index()]) + " " + to_text(value);
}

}  // namespace

std::string digest(std::span<const std::byte> bytes) {
  Hash hash;
  hash.add(bytes);
  return hash.text();
}

std::string digest(std::string_view text) {
  return digest(std::as_bytes(std::span(text.data(), text.size())));
}

std::string digest(const LogicalTensor& tensor) {
  Hash hash;
  hash.add(name_of(tensor.dtype));
  hash.add(to_text(tensor.shape));
  hash.add(std::span<const std::byte>(tensor.bytes));
  return hash.text();
}

std::string digest(const LogicalState& state, const std::vector<std::string>& selectors) {
  Hash hash;
  for (const auto& [key, tensor] : state.tensors) {
    if (!selectors.empty() && !selects(selectors, key.part)) continue;
    hash.add(key.name);
    hash.add(key.part);
    hash.add(digest(tensor));
  }
  if (selectors.empty()) {
    for (const auto& [name, value] : state.values) {
      hash.add(name);
      hash.add(typed_text(value));
    }
  }
  return hash.text();
}

}  // namespace resumecheck
