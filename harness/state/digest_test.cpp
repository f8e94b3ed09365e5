#include "harness/state/digest.h"

#include <gtest/gtest.h>

#include <set>

namespace resumecheck {
namespace {

LogicalState small_state() {
  LogicalState state;
  state.tensors[{"w", "param"}] = {Dtype::f32, {2}, 0, Bytes(8, std::byte{1})};
  state.tensors[{"w", "step"}] = {Dtype::f32, {}, 0, Bytes(4, std::byte{2})};
  state.values["lr/0"] = 0.5;
  return state;
}

TEST(Digest, IsXxh3With128BitsHighHalfFirst) {
  // XXH3_128bits("", seed 0) of the reference implementation; `xxh128sum` prints the same.
  EXPECT_EQ(digest(std::string_view()), "99aa06d3014798d86001c324468d497f");
}

TEST(Digest, EverythingThatMakesATensorCounts) {
  const LogicalTensor tensor{Dtype::f32, {2, 3}, 0, Bytes(24)};
  std::set<std::string> digests = {digest(tensor)};
  LogicalTensor other = tensor;
  other.dtype = Dtype::i32;
  digests.insert(digest(other));
  other = tensor;
  other.shape = {3, 2};
  digests.insert(digest(other));
  other = tensor;
  other.bytes[23] = std::byte{1};
  digests.insert(digest(other));
  EXPECT_EQ(digests.size(), 4U) << "dtype, shape and each byte must change the digest";
}

TEST(Digest, OfAStateCoversNamesPartsTensorsAndValues) {
  std::set<std::string> digests;
  LogicalState state = small_state();
  digests.insert(digest(state));
  auto node = state.tensors.extract(TensorKey{"w", "step"});
  node.key() = {"ws", "tep"};  // the same letters in the same order
  state.tensors.insert(std::move(node));
  digests.insert(digest(state));
  state = small_state();
  state.values["lr/0"] = 0.25;
  digests.insert(digest(state));
  state.values["lr/0"] = std::int64_t{1};
  digests.insert(digest(state));
  state.values["lr/0"] = 1.0;
  digests.insert(digest(state));
  EXPECT_EQ(digests.size(), 5U);
}

TEST(Digest, SelectorsChooseParts) {
  LogicalState state = small_state();
  const std::string params = digest(state, {"param"});
  state.tensors[{"w", "step"}].bytes[0] = std::byte{9};
  state.values["lr/0"] = 7.0;
  EXPECT_EQ(digest(state, {"param"}), params) << "what is not selected must not count";
  state.tensors[{"w", "param"}].bytes[0] = std::byte{9};
  EXPECT_NE(digest(state, {"param"}), params);
}

}  // namespace
}  // namespace resumecheck
