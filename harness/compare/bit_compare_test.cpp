#include "harness/compare/bit_compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "harness/compare/element.h"
#include "harness/compare/state_builder.h"

namespace resumecheck {
namespace {

using Kind = Difference::Kind;
const std::vector<std::string> kAll = {"param", "moment1", "moment2", "step", "lr"};

LogicalState quantised_state() {
  LogicalState state;
  std::vector<std::uint8_t> codes(10 * 256);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i);
  std::vector<float> scale(10);
  for (std::size_t i = 0; i < scale.size(); ++i) scale[i] = 1.F + static_cast<float>(i);
  state.tensors[{"ffn.up", "moment2.codes"}] = tensor_of(Dtype::u8, {40, 64}, codes, 256);
  state.tensors[{"ffn.up", "moment2.scale"}] = floats(scale, 256);
  state.tensors[{"ffn.up", "param"}] = tensor_of(Dtype::f32, {40, 64}, std::vector<float>(2560, 1));
  state.tensors[{"norm", "param"}] = floats({1, 2, 3});
  state.tensors[{"norm", "step"}] = tensor_of(Dtype::f32, {}, std::vector<float>{3});
  state.values["lr/0"] = 0.5;
  return state;
}

Difference only_difference(const Comparison& comparison) {
  EXPECT_EQ(comparison.differences.size(), 1U);
  return comparison.differences.empty() ? Difference{} : comparison.differences[0];
}

TEST(BitCompare, EqualStatesAreTheSameAndCounted) {
  const Comparison comparison = compare(quantised_state(), quantised_state(), kAll);
  EXPECT_TRUE(comparison.same());
  EXPECT_EQ(comparison.tensors, 5);
  EXPECT_EQ(comparison.values, 1);
  EXPECT_EQ(comparison.bytes, 2560 + 40 + 10240 + 12 + 4);
  EXPECT_EQ(comparison.parts.at("param").same, 2);
  EXPECT_EQ(comparison.parts.at("param").total, 2);
  EXPECT_EQ(comparison.parts.at("moment2.scale").total, 1);
  EXPECT_EQ(comparison.parts.at("lr").same, 1);
}

TEST(BitCompare, CodesHereAndValuesThereAreOneDifference) {
  LogicalState quantised = quantised_state(), plain = quantised_state();
  plain.tensors.erase({"ffn.up", "moment2.codes"});
  plain.tensors.erase({"ffn.up", "moment2.scale"});
  plain.tensors[{"ffn.up", "moment2.values"}] =
      tensor_of(Dtype::bf16, {40, 64}, std::vector<std::uint16_t>(2560));
  const std::string codes = "codes, U8 [40, 64]", values = "values, BF16 [40, 64]";
  for (const bool quantised_first : {true, false}) {
    const Comparison comparison =
        quantised_first ? compare(quantised, plain, kAll) : compare(plain, quantised, kAll);
    const Difference difference = only_difference(comparison);
    EXPECT_EQ(difference.kind, Kind::storage_width);
    EXPECT_EQ(difference.key, (TensorKey{"ffn.up", "moment2"}));
    EXPECT_EQ(difference.want, quantised_first ? codes : values);
    EXPECT_EQ(difference.got, quantised_first ? values : codes);
    EXPECT_EQ(difference.differing, 2560);
    EXPECT_EQ(comparison.parts.at("moment2").total, 1);
    EXPECT_EQ(comparison.parts.at("moment2").same, 0);
    EXPECT_EQ(comparison.parts.at("param").same, 2);
  }
}

// A moment that is gone, or one that has both, is no change of its storage.
TEST(BitCompare, OnlyAMomentThatIsStoredOtherwiseIsOfAnotherWidth) {
  LogicalState gone = quantised_state(), both = quantised_state();
  gone.tensors.erase({"ffn.up", "moment2.codes"});
  gone.tensors.erase({"ffn.up", "moment2.scale"});
  both.tensors[{"ffn.up", "moment2.values"}] =
      tensor_of(Dtype::f32, {40, 64}, std::vector<float>(2560));
  EXPECT_EQ(compare(quantised_state(), gone, kAll).differences.size(), 2U);
  EXPECT_EQ(compare(quantised_state(), gone, kAll).differences[0].kind, Kind::missing);
  EXPECT_EQ(only_difference(compare(quantised_state(), both, kAll)).kind, Kind::extra);
}

TEST(BitCompare, OnlyWhatIsSelectedCounts) {
  LogicalState got = quantised_state();
  set_element(got.tensors[{"norm", "param"}], 0, 7.F);
  got.values["lr/0"] = 1.0;
  const Comparison comparison = compare(quantised_state(), got, {"moment2", "step"});
  EXPECT_TRUE(comparison.same());
  EXPECT_EQ(comparison.tensors, 3);
  EXPECT_EQ(comparison.values, 0);
  EXPECT_EQ(comparison.parts.count("param"), 0U);
  EXPECT_EQ(compare(quantised_state(), got, {}).tensors, 0);
}

TEST(BitCompare, AScaleDifferenceNamesTheBlockTheScaleStandsFor) {
  LogicalState want = quantised_state();
  LogicalState got = want;
  set_element(want.tensors[{"ffn.up", "moment2.scale"}], 7, std::uint32_t{0x3d1c4321});
  set_element(got.tensors[{"ffn.up", "moment2.scale"}], 7, std::uint32_t{0x3d1c0000});
  set_element(got.tensors[{"ffn.up", "moment2.scale"}], 9, 10.5F);
  const Comparison comparison = compare(want, got, kAll);
  const Difference difference = only_difference(comparison);
  EXPECT_EQ(difference.kind, Kind::bytes);
  EXPECT_EQ(difference.key, (TensorKey{"ffn.up", "moment2.scale"}));
  EXPECT_EQ(difference.elements, 10);
  EXPECT_EQ(difference.differing, 2);
  EXPECT_EQ(difference.first_index, 7);
  EXPECT_EQ(difference.block, 256);
  EXPECT_EQ(difference.blocks, 10);
  EXPECT_EQ(difference.differing_blocks, 2);
  EXPECT_EQ(difference.first_block, 7);
  EXPECT_EQ(difference.want, "0x3d1c4321  0.03815");
  EXPECT_EQ(difference.got, "0x3d1c0000  0.0380859");
  EXPECT_EQ(difference.largest_ulp, 0x80000U) << "10 -> 10.5 is the larger of the two";
  EXPECT_EQ(comparison.parts.at("moment2.scale").same, 0);
  EXPECT_EQ(comparison.parts.at("moment2.codes").same, 1);
}

TEST(BitCompare, CodesAreCountedByBlocks) {
  LogicalState got = quantised_state();
  LogicalTensor& codes = got.tensors[{"ffn.up", "moment2.codes"}];
  for (const std::int64_t i : {255, 256, 257, 511, 2559}) set_element(codes, i, std::uint8_t{99});
  const Difference difference = only_difference(compare(quantised_state(), got, kAll));
  EXPECT_EQ(difference.differing, 5);
  EXPECT_EQ(difference.first_index, 255);
  EXPECT_EQ(difference.blocks, 10);
  EXPECT_EQ(difference.differing_blocks, 3);
  EXPECT_EQ(difference.first_block, 0);
  EXPECT_EQ(difference.want, "0xff  255");
  EXPECT_EQ(difference.got, "0x63  99");
  EXPECT_EQ(difference.largest_ulp, 0U) << "codes are no floating-point numbers";
}

TEST(BitCompare, AShortLastBlockIsABlock) {
  LogicalState want;
  want.tensors[{"w", "moment1.codes"}] =
      tensor_of(Dtype::u8, {10}, std::vector<std::uint8_t>(10, 1), 4);
  LogicalState got = want;
  set_element(got.tensors[{"w", "moment1.codes"}], 9, std::uint8_t{2});
  const Difference difference = only_difference(compare(want, got, kAll));
  EXPECT_EQ(difference.blocks, 3);
  EXPECT_EQ(difference.first_block, 2);
}

TEST(BitCompare, SignsOfZeroAndPayloadsOfNanAreDifferences) {
  LogicalState want, got;
  want.tensors[{"w", "param"}] = floats({0.F, std::bit_cast<float>(0x7fc00000U), 1.F});
  got.tensors[{"w", "param"}] = floats({-0.F, std::bit_cast<float>(0x7fc00001U), 1.F});
  EXPECT_EQ(only_difference(compare(want, got, kAll)).differing, 2);
  EXPECT_TRUE(compare(want, want, kAll).same()) << "a NaN of equal bits is the same";
}

TEST(BitCompare, EachOtherKindIsSeen) {
  const TensorKey key = {"norm", "param"};
  const struct {
    Kind kind;
    void (*change)(LogicalState&);
    const char* want;
    const char* got;
  } table[] = {
      {Kind::missing,
       [](LogicalState& s) {
         s.tensors.erase({"norm", "param"});
       },
       "F32 [3]", "absent"},
      {Kind::dtype,
       [](LogicalState& s) {
         s.tensors[{"norm", "param"}].dtype = Dtype::i32;
       },
       "F32", "I32"},
      {Kind::shape,
       [](LogicalState& s) {
         s.tensors[{"norm", "param"}].shape = {3, 1};
       },
       "[3]", "[3, 1]"},
      {Kind::block,
       [](LogicalState& s) {
         s.tensors[{"norm", "param"}].block = 128;
       },
       "block 0", "block 128"},
  };
  for (const auto& [kind, change, want_text, got_text] : table) {
    LogicalState got = quantised_state();
    change(got);
    const Comparison comparison = compare(quantised_state(), got, kAll);
    const Difference difference = only_difference(comparison);
    EXPECT_EQ(difference.kind, kind) << got_text;
    EXPECT_EQ(difference.key, key);
    EXPECT_EQ(difference.want, want_text);
    EXPECT_EQ(difference.got, got_text);
    EXPECT_EQ(comparison.parts.at("param").same, 1) << got_text;
    EXPECT_EQ(comparison.parts.at("param").total, 2) << got_text;
  }
  LogicalState want = quantised_state();
  want.tensors.erase(key);
  const Difference extra = only_difference(compare(want, quantised_state(), kAll));
  EXPECT_EQ(extra.kind, Kind::extra);
  EXPECT_EQ(extra.got, "F32 [3]");
}

TEST(BitCompare, ATensorOnOneSideIsNotCountedAsCompared) {
  LogicalState got = quantised_state();
  got.tensors.clear();
  got.values.clear();
  const Comparison comparison = compare(quantised_state(), got, kAll);
  EXPECT_EQ(comparison.tensors, 0);
  EXPECT_EQ(comparison.values, 0);
  EXPECT_EQ(comparison.differences.size(), 6U);
}

TEST(BitCompare, ValuesKeepTheirTypes) {
  const std::pair<Value, Value> different[] = {
      {1.0, std::int64_t{1}},  {0.0, -0.0}, {std::int64_t{1}, true},
      {1.0, std::string("1")}, {0.5, 0.25}, {std::string("a"), std::string("b")}};
  for (const auto& [one, two] : different) {
    LogicalState want, got;
    want.values["lr/0"] = one;
    got.values["lr/0"] = two;
    const Difference difference = only_difference(compare(want, got, kAll));
    EXPECT_EQ(difference.kind, Kind::value);
    EXPECT_EQ(difference.key, (TensorKey{"lr/0", "value"}));
    EXPECT_NE(difference.want, difference.got) << "a reader must see what differs";
  }
  LogicalState nan;
  nan.values["lr/0"] = std::nan("");
  EXPECT_TRUE(compare(nan, nan, kAll).same());
}

TEST(BitCompare, DifferencesComeInKeyOrderThenValues) {
  LogicalState got = quantised_state();
  for (auto& [key, tensor] : got.tensors) tensor.bytes[0] ^= std::byte{1};
  got.values["lr/0"] = 9.0;
  const Comparison comparison = compare(quantised_state(), got, kAll);
  ASSERT_EQ(comparison.differences.size(), 6U);
  EXPECT_TRUE(std::is_sorted(
      comparison.differences.begin(), comparison.differences.end() - 1,
      [](const Difference& left, const Difference& right) { return left.key < right.key; }));
  EXPECT_EQ(comparison.differences.back().kind, Kind::value);
}

TEST(BitCompare, ASingleElementIsFoundWhereverItIs) {
  LogicalState want;
  want.tensors[{"w", "param"}] = floats(std::vector<float>(2500, 1.F));
  for (std::int64_t i = 0; i < 2500; ++i) {
    LogicalState got = want;
    set_element(got.tensors[{"w", "param"}], i, 2.F);
    const Difference difference = only_difference(compare(want, got, kAll));
    ASSERT_EQ(difference.first_index, i);
    ASSERT_EQ(difference.differing, 1);
  }
}

TEST(BitCompare, AgreesWithTheObviousLoop) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const Dtype dtype = static_cast<Dtype>(random() % 15);
    const auto size = static_cast<std::int64_t>(size_of(dtype));
    const std::int64_t count = 1 + random() % 5000;
    const std::int64_t block = round % 3 == 0 ? 0 : 1 + random() % 300;
    LogicalState want, got;
    LogicalTensor& tensor =
        want.tensors[{"w", "param"}] = {dtype, {count}, block, Bytes(count * size)};
    for (std::byte& byte : tensor.bytes) byte = static_cast<std::byte>(random());
    got = want;
    Bytes& changed = got.tensors[{"w", "param"}].bytes;
    for (int i = random() % 20; i >= 0; --i) changed[random() % changed.size()] ^= std::byte{4};
    std::int64_t differing = 0, first = -1, blocks = 0, last_block = -1;
    for (std::int64_t i = 0; i < count; ++i) {
      if (std::memcmp(&tensor.bytes[i * size], &changed[i * size], size) == 0) continue;
      ++differing;
      if (first < 0) first = i;
      if (block > 0 && i / block != last_block) {
        ++blocks;
        last_block = i / block;
      }
    }
    const Comparison comparison = compare(want, got, kAll);
    ASSERT_EQ(comparison.same(), differing == 0);
    if (differing == 0) continue;
    const Difference& difference = comparison.differences[0];
    ASSERT_EQ(difference.differing, differing);
    ASSERT_EQ(difference.first_index, first);
    ASSERT_EQ(difference.differing_blocks, blocks);
    ASSERT_EQ(difference.first_block, block > 0 ? first / block : -1);
    ASSERT_EQ(difference.want, element_text(load_bits(&tensor.bytes[first * size], dtype), dtype));
  }
}

}  // namespace
}  // namespace resumecheck
