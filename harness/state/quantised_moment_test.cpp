// Every way in which codes, scales and codebook can fail to fit each other is told, and nothing
// that fits is refused, whatever the shape.
#include "harness/state/quantised_moment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/adamw.h"

namespace resumecheck {
namespace {

using kernels::Storage;
using testing::IsEmpty;

LogicalTensor filled(Dtype dtype, Shape shape, std::int64_t block = 0) {
  const auto bytes = static_cast<std::size_t>(element_count(shape)) * size_of(dtype);
  return {dtype, std::move(shape), block, Bytes(bytes)};
}

LogicalTensor floats(const std::vector<float>& values) {
  LogicalTensor tensor = filled(Dtype::f32, {static_cast<std::int64_t>(values.size())});
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

constexpr Storage kStorages[] = {Storage::map8, Storage::map4, Storage::e4m3};

void add_moment(LogicalState& state, const std::string& name, const std::string& moment,
                Storage storage, const Shape& shape, std::int64_t block) {
  const Dtype dtype = storage == Storage::e4m3 ? Dtype::f8_e4m3 : Dtype::u8;
  state.tensors[{name, moment + ".codes"}] = filled(dtype, shape, block);
  const std::int64_t blocks = (element_count(shape) + block - 1) / block;
  state.tensors[{name, moment + ".scale"}] = filled(Dtype::f32, {blocks}, block);
  if (storage == Storage::e4m3) return;
  state.tensors[{name, moment + ".codebook"}] =
      floats(kernels::standard_codebook(storage, moment == "moment1"));
}

LogicalState state_of(Storage storage, const Shape& shape = {6, 100}, std::int64_t block = 128) {
  LogicalState state;
  state.tensors[{"w", "param"}] = filled(Dtype::f32, shape);
  state.tensors[{"b", "moment1.values"}] = filled(Dtype::f32, {7});
  add_moment(state, "w", "moment1", storage, shape, block);
  add_moment(state, "w", "moment2", storage, shape, block);
  return state;
}

TEST(QuantisedMoment, PartsOfOneMomentFit) {
  for (const Storage storage : kStorages) EXPECT_THAT(find_misfits(state_of(storage)), IsEmpty());
  EXPECT_THAT(find_misfits({}), IsEmpty());
}

TEST(QuantisedMoment, AnyShapeFitsWithItsOwnScalesAndNoOtherNumberOfThem) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    Shape shape(random() % 4);
    for (auto& size : shape) size = static_cast<std::int64_t>(random() % 9);
    const auto block = static_cast<std::int64_t>(1 + random() % 300);
    LogicalState state = state_of(kStorages[random() % 3], shape, block);
    ASSERT_THAT(find_misfits(state), IsEmpty()) << to_text(shape) << " in blocks of " << block;
    LogicalTensor& scale = state.tensors.at({"w", "moment2.scale"});
    const std::int64_t blocks = scale.shape[0];
    const std::int64_t other = blocks > 0 && random() % 2 == 0 ? blocks - 1 : blocks + 1;
    scale = filled(Dtype::f32, {other}, block);
    const auto misfits = find_misfits(state);
    ASSERT_EQ(misfits.size(), 1U) << to_text(shape) << ", " << other << " for " << blocks;
    EXPECT_EQ(misfits.front().key, (TensorKey{"w", "moment2.scale"}));
  }
}

struct Misfit {
  const char* name;
  Storage storage;
  std::function<void(std::map<TensorKey, LogicalTensor>&)> spoil;
  const char* part;
  const char* words;
};

class EveryMisfit : public testing::TestWithParam<Misfit> {};

const TensorKey kCodes = {"w", "moment1.codes"};
const TensorKey kScale = {"w", "moment1.scale"};
const TensorKey kBook = {"w", "moment1.codebook"};

void set_entry(LogicalTensor& codebook, std::size_t index, float value) {
  std::memcpy(codebook.bytes.data() + index * sizeof value, &value, sizeof value);
}

const Misfit kMisfits[] = {
    {"no_codes", Storage::map8, [](auto& t) { t.erase(kCodes); }, "moment1.codes", "is missing"},
    {"no_scale", Storage::map8, [](auto& t) { t.erase(kScale); }, "moment1.scale", "is missing"},
    {"no_codebook", Storage::map4, [](auto& t) { t.erase(kBook); }, "moment1.codebook",
     "is missing"},
    {"no_scale_fp8", Storage::e4m3, [](auto& t) { t.erase(kScale); }, "moment1.scale",
     "is missing"},
    {"codes_of_another_dtype", Storage::map8, [](auto& t) { t.at(kCodes).dtype = Dtype::i8; },
     "moment1.codes", "is I8"},
    {"u8_codes_without_codebook", Storage::e4m3, [](auto& t) { t.at(kCodes).dtype = Dtype::u8; },
     "moment1.codebook", "is missing"},
    {"float_codes_with_codebook", Storage::map8,
     [](auto& t) { t.at(kCodes).dtype = Dtype::f8_e4m3; }, "moment1.codebook", "have none"},
    {"no_block", Storage::map8, [](auto& t) { t.at(kCodes).block = 0; }, "moment1.codes",
     "no block size"},
    {"scales_of_another_block", Storage::map8, [](auto& t) { t.at(kCodes).block = 64; },
     "moment1.scale", "has 5 entries, but 600 codes in blocks of 64 have 10"},
    {"codebook_of_17", Storage::map4,
     [](auto& t) { t.at(kBook) = floats(std::vector<float>(17, 1.0f)); }, "moment1.codebook",
     "has 17 entries"},
    {"codebook_not_ascending", Storage::map8, [](auto& t) { set_entry(t.at(kBook), 7, 0.5f); },
     "moment1.codebook", "entry 8"},
    {"codebook_of_zeros", Storage::map4,
     [](auto& t) { t.at(kBook) = floats(std::vector<float>(16, 0.0f)); }, "moment1.codebook",
     "entry 1 is 0"},
    {"codebook_with_nan", Storage::map8,
     [](auto& t) { set_entry(t.at(kBook), 255, std::nanf("")); }, "moment1.codebook", "entry 255"},
    {"code_beyond_its_codebook", Storage::map4,
     [](auto& t) { t.at(kCodes).bytes[17] = std::byte{16}; }, "moment1.codes",
     "has the code 16 at element 17, but its codebook ends at 15"},
};
INSTANTIATE_TEST_SUITE_P(QuantisedMoment, EveryMisfit, testing::ValuesIn(kMisfits),
                         [](const auto& about) { return about.param.name; });

TEST_P(EveryMisfit, IsToldWithTheTensorAndACure) {
  LogicalState state = state_of(GetParam().storage);
  GetParam().spoil(state.tensors);
  const auto misfits = find_misfits(state);
  ASSERT_EQ(misfits.size(), 1U);
  const MomentMisfit& misfit = misfits.front();
  EXPECT_EQ(misfit.key, (TensorKey{"w", GetParam().part}));
  EXPECT_NE(misfit.what.find(GetParam().words), std::string::npos) << misfit.what;
  EXPECT_NE(misfit.what.find(std::string(GetParam().part) + " of w"), std::string::npos);
  EXPECT_FALSE(misfit.cure.empty());
}

TEST(QuantisedMoment, ACodeAtTheEndOfItsCodebookFits) {
  LogicalState state = state_of(Storage::map4);
  state.tensors.at(kCodes).bytes[17] = std::byte{15};
  EXPECT_THAT(find_misfits(state), IsEmpty());
}

TEST(QuantisedMoment, EachMomentThatDoesNotFitIsTold) {
  LogicalState state = state_of(Storage::map8);
  state.tensors.erase({"w", "moment1.scale"});
  state.tensors.erase({"w", "moment2.codebook"});
  const auto misfits = find_misfits(state);
  ASSERT_EQ(misfits.size(), 2U);
  EXPECT_EQ(misfits[1].key, (TensorKey{"w", "moment2.codebook"}));
}

}  // namespace
}  // namespace resumecheck
