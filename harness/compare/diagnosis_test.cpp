#include "harness/compare/diagnosis.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "harness/compare/element.h"
#include "harness/compare/state_builder.h"
#include "kernels/adamw.h"
#include "kernels/float_bits.h"

namespace resumecheck {
namespace {

const std::vector<std::string> kParts = {"param", "master", "moment1", "moment2", "step", "lr"};
const TensorKey kParam = {"w", "param"};
const TensorKey kCodes = {"w", "moment1.codes"};
const TensorKey kScale = {"w", "moment1.scale"};
const TensorKey kBook = {"w", "moment1.codebook"};
const TensorKey kPlain = {"b", "moment2.values"};
const TensorKey kStep = {"w", "step"};

constexpr std::int64_t kRows = 8, kColumns = 64, kBlock = 64;

// Row shards over dp; replicas over nothing.
void hold(AssembledState& assembled, const std::string& mesh, int world) {
  assembled.mesh = mesh;
  assembled.world = world;
  for (const auto& [key, tensor] : assembled.state.tensors) {
    for (int rank = 0; rank < world; ++rank) {
      Box box = Box::whole(tensor.shape);
      if (key == kParam || key == kCodes) {
        box = Box({rank * kRows / world, 0}, {kRows / world, kColumns});
      }
      assembled.holders[key].push_back({rank, box});
    }
  }
}

AssembledState state_at(int step) {
  std::mt19937 random(100 + step);
  std::uniform_real_distribution<float> real(-1.F, 1.F);
  const auto draw = [&](std::int64_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = step == 0 ? 0.F : real(random);
    return values;
  };
  AssembledState assembled;
  auto& tensors = assembled.state.tensors;
  const std::vector<float> moments = draw(kRows * kColumns);
  std::vector<std::uint8_t> codes(moments.size());
  std::vector<float> scale(kRows);
  const std::vector<float>& book = kernels::standard_codebook(kernels::Storage::map8, true);
  kernels::quantise(kernels::Storage::map8, moments.data(), kRows * kColumns, kBlock, book.data(),
                    codes.data(), scale.data(), kernels::Isa::baseline);
  tensors[kCodes] = tensor_of(Dtype::u8, {kRows, kColumns}, codes, kBlock);
  tensors[kScale] = floats(scale, kBlock);
  tensors[kBook] = floats({book.begin(), book.end()});
  tensors[kPlain] = floats(draw(6));
  tensors[kStep] = tensor_of(Dtype::f32, {}, std::vector<float>{static_cast<float>(step)});
  std::vector<float> params(kRows * kColumns);
  for (float& value : params) value = real(random);
  tensors[kParam] = tensor_of(Dtype::f32, {kRows, kColumns}, params);
  assembled.state.step = step;
  assembled.state.values["lr/0"] = 1.0 / (1 + step);
  return assembled;
}

class DiagnosisTest : public testing::Test {
 protected:
  DiagnosisTest() {
    want_ = state_at(3);
    got_ = want_;
    before_ = state_at(2);
    after_ = state_at(4);
    fresh_ = state_at(0);
    hold(want_, "dp4", 4);
    hold(got_, "dp2", 2);
    hold(before_, "dp4", 4);
  }

  LogicalTensor& want(const TensorKey& key) { return want_.state.tensors.at(key); }
  LogicalTensor& got(const TensorKey& key) { return got_.state.tensors.at(key); }

  // got becomes `change` of want's elements.
  void change_floats(const TensorKey& key, const std::function<float(float)>& change) {
    for (std::int64_t i = 0; i < element_count(want(key).shape); ++i) {
      set_element(got(key), i, change(element<float>(want(key), i)));
    }
  }

  Diagnosis diagnosis() const {
    Evidence evidence;
    evidence.want = &want_;
    evidence.got = &got_;
    evidence.one_step_before = has_before_ ? &before_ : nullptr;
    evidence.fresh = has_fresh_ ? &fresh_.state : nullptr;
    evidence.param_dtype = param_dtype_;
    evidence.saved_step = saved_step_;
    evidence.one_step_after = has_after_ ? &after_ : nullptr;
    return diagnose(compare(want_.state, got_.state, kParts), evidence);
  }

  static bool holds(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  bool holds_fit(const std::string& name) const {
    const Diagnosis found = diagnosis();
    return std::any_of(found.fits.begin(), found.fits.end(),
                       [&](const Fit& fit) { return fit.name == name; });
  }

  static std::string text(const Diagnosis& diagnosis) {
    std::string all = "fits:";
    for (const Fit& fit : diagnosis.fits) {
      all += " " + fit.name + " (" + std::to_string(fit.fits) + " of " + std::to_string(fit.of) +
             ") " + fit.detail + ",";
    }
    all += " does not fit:";
    for (const std::string& name : diagnosis.does_not_fit) all += " " + name + ",";
    return all;
  }

  // The only mistake that fits, and it explains everything.
  Fit expect_only(const std::string& name, const std::string& detail = "") {
    const Diagnosis found = diagnosis();
    EXPECT_EQ(found.fits.size(), 1U) << text(found);
    if (found.fits.empty()) return {};
    const Fit& fit = found.fits[0];
    EXPECT_EQ(fit.name, name) << text(found);
    EXPECT_EQ(fit.fits, fit.of) << text(found);
    EXPECT_GT(fit.of, 0) << text(found);
    EXPECT_EQ(fit.detail, detail) << text(found);
    EXPECT_FALSE(holds(found.does_not_fit, name)) << text(found);
    return fit;
  }

  AssembledState want_, got_, before_, after_, fresh_;
  bool has_before_ = true;
  bool has_after_ = true;
  bool has_fresh_ = true;
  std::string param_dtype_ = "fp32";
  std::int64_t saved_step_ = 3;
};

TEST_F(DiagnosisTest, NoDifferenceHasNoDiagnosis) {
  const Diagnosis found = diagnosis();
  EXPECT_TRUE(found.fits.empty());
  EXPECT_TRUE(found.does_not_fit.empty()) << "nothing was there to try anything on";
}

TEST_F(DiagnosisTest, ADifferenceOfNoKnownKindFitsNothing) {
  set_element(got(kScale), 5, 123.F);
  set_element(got(kCodes), 7,
              static_cast<std::uint8_t>(element<std::uint8_t>(want(kCodes), 7) ^ 1));
  set_element(got(kParam), 9, 77.F);
  const Diagnosis found = diagnosis();
  EXPECT_TRUE(found.fits.empty()) << text(found);
  for (const char* name :
       {"rounded through bf16", "rounded through fp16", "another rank's shard", "one step stale",
        "fresh start", "requantised", "scaled by the number of ranks"}) {
    EXPECT_TRUE(holds(found.does_not_fit, name)) << name << " could have applied: " << text(found);
  }
  EXPECT_FALSE(holds(found.does_not_fit, "step restarted")) << "no step differs";
  EXPECT_FALSE(holds(found.does_not_fit, "cast to the parameters' dtype")) << "no dtype differs";
}

TEST_F(DiagnosisTest, RoundedThroughBf16) {
  change_floats(kScale, [](float v) { return kernels::widen_bf16(kernels::round_to_bf16(v)); });
  expect_only("rounded through bf16");
  param_dtype_ = "bf16";
  expect_only("rounded through bf16", "the parameters' dtype");
}

TEST_F(DiagnosisTest, TruncatedToBf16IsNotRounded) {
  change_floats(kScale,
                [](float v) { return kernels::float_of(kernels::bits_of(v) & 0xffff0000U); });
  EXPECT_TRUE(diagnosis().fits.empty()) << "some of 8 scales round up: " << text(diagnosis());
}

TEST_F(DiagnosisTest, RoundedThroughFp16) {
  change_floats(kPlain, [](float v) {
    int exponent = 0;
    std::frexp(v, &exponent);
    const float unit = std::ldexp(1.F, exponent - 11);  // 11 significant bits
    return std::nearbyint(v / unit) * unit;
  });
  expect_only("rounded through fp16");
}

TEST_F(DiagnosisTest, CastToTheParametersDtype) {
  param_dtype_ = "bf16";
  std::vector<std::uint16_t> cast;
  for (int i = 0; i < 6; ++i)
    cast.push_back(kernels::round_to_bf16(element<float>(want(kPlain), i)));
  got(kPlain) = tensor_of(Dtype::bf16, {6}, cast);
  EXPECT_EQ(expect_only("cast to the parameters' dtype", "F32 became BF16").of, 6);
  set_element(got(kPlain), 3, std::uint16_t{0x1234});
  EXPECT_TRUE(diagnosis().fits.empty()) << "one element is no cast: " << text(diagnosis());
  EXPECT_TRUE(holds(diagnosis().does_not_fit, "cast to the parameters' dtype"));
}

TEST_F(DiagnosisTest, ACastToAnotherDtypeIsNotTheParametersDoing) {
  param_dtype_ = "fp32";
  got(kPlain) = tensor_of(Dtype::bf16, {6}, std::vector<std::uint16_t>(6, 1));
  EXPECT_FALSE(holds(diagnosis().does_not_fit, "cast to the parameters' dtype"));
  EXPECT_TRUE(diagnosis().fits.empty()) << text(diagnosis());
}

TEST_F(DiagnosisTest, OneStepStale) {
  for (const TensorKey& key : {kCodes, kScale, kPlain}) got(key) = before_.state.tensors.at(key);
  expect_only("one step stale");
}

TEST_F(DiagnosisTest, OneStepStaleInOneShardOnly) {
  const Box shard({2, 0}, {2, kColumns});
  LogicalTensor& codes = got(kCodes);
  copy_region(shard, Box::whole(codes.shape), before_.state.tensors.at(kCodes).bytes,
              Box::whole(codes.shape), codes.bytes, 1);
  expect_only("one step stale");
}

TEST_F(DiagnosisTest, AStaleLearningRate) {
  got_.state.values["lr/0"] = before_.state.values["lr/0"];
  EXPECT_EQ(expect_only("one step stale").of, 1);
  got_.state.values["lr/0"] = fresh_.state.values["lr/0"];
  expect_only("fresh start");
}

TEST_F(DiagnosisTest, WithoutTheStepBeforeStalenessIsNotTried) {
  got(kPlain) = before_.state.tensors.at(kPlain);
  has_before_ = false;
  const Diagnosis found = diagnosis();
  EXPECT_TRUE(found.fits.empty()) << text(found);
  EXPECT_FALSE(holds(found.does_not_fit, "one step stale"));
}

TEST_F(DiagnosisTest, FreshStart) {
  for (const TensorKey& key : {kCodes, kScale, kPlain, kParam}) {
    got(key) = fresh_.state.tensors.at(key);
  }
  expect_only("fresh start");
}

TEST_F(DiagnosisTest, MomentsOfZeroAreAFreshStartWithoutAFreshStateToo) {
  has_fresh_ = false;
  for (const TensorKey& key : {kCodes, kScale, kPlain}) {
    std::fill(got(key).bytes.begin(), got(key).bytes.end(), std::byte{});
  }
  expect_only("fresh start", "all zero");
}

TEST_F(DiagnosisTest, AParameterOfZeroIsNoFreshStart) {
  has_fresh_ = false;
  std::fill(got(kParam).bytes.begin(), got(kParam).bytes.end(), std::byte{});
  EXPECT_TRUE(diagnosis().fits.empty()) << text(diagnosis());
}

// Exchanges the bytes of two boxes of got.
void swap_boxes(LogicalTensor& tensor, const Box& one, const Box& two) {
  const LogicalTensor before = tensor;
  const Box whole = Box::whole(tensor.shape);
  const std::size_t size = size_of(tensor.dtype);
  for (const auto& [from, onto] : {std::pair(one, two), std::pair(two, one)}) {
    Bytes shard(from.element_count() * size);
    copy_region(from, whole, before.bytes, from, shard, size);
    copy_region(onto, onto, shard, whole, tensor.bytes, size);
  }
}

TEST_F(DiagnosisTest, AnotherRanksShardUnderTheSavingMesh) {
  swap_boxes(got(kCodes), Box({2, 0}, {2, kColumns}), Box({4, 0}, {2, kColumns}));
  expect_only("another rank's shard", "rank 1 of dp4 holds the shard of rank 2");
}

TEST_F(DiagnosisTest, AnotherRanksShardUnderTheResumingMesh) {
  swap_boxes(got(kParam), Box({0, 0}, {4, kColumns}), Box({4, 0}, {4, kColumns}));
  expect_only("another rank's shard", "rank 0 of dp2 holds the shard of rank 1");
}

TEST_F(DiagnosisTest, AnotherRanksShardOnTheSameMesh) {
  got_.holders.clear();
  hold(got_, "dp4", 4);
  const Box from({6, 0}, {2, kColumns}), onto({0, 0}, {2, kColumns});
  Bytes shard(from.element_count());
  const Box whole = Box::whole(want(kCodes).shape);
  copy_region(from, whole, want(kCodes).bytes, from, shard, 1);
  copy_region(onto, onto, shard, whole, got(kCodes).bytes, 1);
  expect_only("another rank's shard", "rank 0 holds the shard of rank 3");
}

TEST_F(DiagnosisTest, AnotherRanksShardMustBeWhole) {
  swap_boxes(got(kCodes), Box({2, 0}, {2, kColumns}), Box({4, 0}, {2, kColumns}));
  set_element(got(kCodes), 2 * kColumns,
              static_cast<std::uint8_t>(element<std::uint8_t>(got(kCodes), 2 * kColumns) ^ 1));
  const Diagnosis found = diagnosis();
  EXPECT_TRUE(found.fits.empty()) << text(found);
  EXPECT_TRUE(holds(found.does_not_fit, "another rank's shard"));
}

TEST_F(DiagnosisTest, WithoutShardsNoneCanBeSwapped) {
  set_element(got(kPlain), 0, 5.F);
  EXPECT_FALSE(holds(diagnosis().does_not_fit, "another rank's shard"))
      << "every rank holds all of it";
}

TEST_F(DiagnosisTest, Requantised) {
  const kernels::Isa isa = kernels::Isa::baseline;
  const std::int64_t count = kRows * kColumns;
  std::vector<float> values(count), scale(kRows), book(256);
  std::vector<std::uint8_t> codes(count);
  std::memcpy(scale.data(), want(kScale).bytes.data(), want(kScale).bytes.size());
  std::memcpy(book.data(), want(kBook).bytes.data(), want(kBook).bytes.size());
  kernels::dequantise(kernels::Storage::map8,
                      reinterpret_cast<const std::uint8_t*>(want(kCodes).bytes.data()),
                      scale.data(), book.data(), 0, count, kBlock, values.data(), isa);
  kernels::quantise(kernels::Storage::map8, values.data(), count, kBlock, book.data(), codes.data(),
                    scale.data(), isa);
  std::memcpy(got(kCodes).bytes.data(), codes.data(), codes.size());
  std::memcpy(got(kScale).bytes.data(), scale.data(), 4 * scale.size());
  ASSERT_NE(got(kScale).bytes, want(kScale).bytes)
      << "blocks whose largest magnitude is negative must come back smaller";
  expect_only("requantised");
}

// ---- of moments in 4 bits and in FP8 as well

constexpr kernels::Storage kStorages[] = {kernels::Storage::map8, kernels::Storage::map4,
                                          kernels::Storage::e4m3};
const TensorKey kOtherBook = {"w", "moment2.codebook"};

class EveryStorage : public DiagnosisTest, public testing::WithParamInterface<kernels::Storage> {
 protected:
  EveryStorage() {
    std::mt19937 random(5);
    std::uniform_real_distribution<float> real(-1.F, 0.5F);
    values_.resize(kRows * kColumns);
    for (float& value : values_) value = real(random);
    quantise(values_, want_);
    got_ = want_;
    got_.holders.clear();
    hold(got_, "dp2", 2);
  }

  const float* book() const {
    return GetParam() == kernels::Storage::e4m3
               ? nullptr
               : kernels::standard_codebook(GetParam(), true).data();
  }

  void quantise(const std::vector<float>& values, AssembledState& onto) const {
    std::vector<std::uint8_t> codes(values.size());
    std::vector<float> scale(kRows);
    kernels::quantise(GetParam(), values.data(), kRows * kColumns, kBlock, book(), codes.data(),
                      scale.data(), kernels::Isa::baseline);
    auto& tensors = onto.state.tensors;
    const bool fp8 = GetParam() == kernels::Storage::e4m3;
    tensors[kCodes] = tensor_of(fp8 ? Dtype::f8_e4m3 : Dtype::u8, {kRows, kColumns}, codes, kBlock);
    tensors[kScale] = floats(scale, kBlock);
    tensors.erase(kBook);
    if (fp8) return;
    tensors[kBook] = floats(kernels::standard_codebook(GetParam(), true));
    tensors[kOtherBook] = floats(kernels::standard_codebook(GetParam(), false));
  }

  std::vector<float> dequantised(AssembledState& of) const {
    std::vector<float> values(values_.size());
    std::vector<float> scale(kRows);
    const Bytes& scales = of.state.tensors.at(kScale).bytes;
    std::memcpy(scale.data(), scales.data(), scales.size());
    kernels::dequantise(
        GetParam(), reinterpret_cast<const std::uint8_t*>(of.state.tensors.at(kCodes).bytes.data()),
        scale.data(), book(), 0, kRows * kColumns, kBlock, values.data(), kernels::Isa::baseline);
    return values;
  }

  // got[i] becomes want[source(i)].
  void permute(const TensorKey& key, const std::function<std::int64_t(std::int64_t)>& source) {
    const std::size_t size = size_of(want(key).dtype);
    for (std::int64_t i = 0; i < element_count(want(key).shape); ++i) {
      std::memcpy(got(key).bytes.data() + i * size, want(key).bytes.data() + source(i) * size,
                  size);
    }
  }

  void spoil_one(const TensorKey& key) { got(key).bytes[3] ^= std::byte{1}; }

  std::vector<float> values_;
};
INSTANTIATE_TEST_SUITE_P(Diagnosis, EveryStorage, testing::ValuesIn(kStorages),
                         [](const auto& about) {
                           return about.param == kernels::Storage::map8   ? "map8"
                                  : about.param == kernels::Storage::map4 ? "map4"
                                                                          : "e4m3";
                         });

TEST_P(EveryStorage, CodesOneBlockOff) {
  constexpr std::int64_t kCount = kRows * kColumns;
  permute(kCodes, [](std::int64_t i) { return (i + kBlock) % kCount; });
  expect_only("codes one block off", "each is the next one's");
  permute(kCodes, [](std::int64_t i) { return (i + kCount - kBlock) % kCount; });
  expect_only("codes one block off", "each is the one's before");
  permute(kCodes, [](std::int64_t i) { return (i + 2 * kBlock) % kCount; });
  EXPECT_FALSE(holds_fit("codes one block off")) << "two are not one: " << text(diagnosis());
}

TEST_P(EveryStorage, ScaleOfANeighbouringBlock) {
  permute(kScale, [](std::int64_t i) { return (i + 1) % kRows; });
  expect_only("scale of a neighbouring block", "each is the next one's");
  spoil_one(kScale);
  EXPECT_FALSE(holds_fit("scale of a neighbouring block")) << text(diagnosis());
}

TEST_P(EveryStorage, NibblesSwapped) {
  permute(kCodes, [](std::int64_t i) { return i ^ 1; });
  if (GetParam() != kernels::Storage::map4) {
    EXPECT_FALSE(holds_fit("nibbles swapped")) << "a code has a byte of its own";
    return;
  }
  expect_only("nibbles swapped");
  spoil_one(kCodes);
  EXPECT_FALSE(holds_fit("nibbles swapped")) << text(diagnosis());
}

TEST_P(EveryStorage, CodebookDropped) {
  if (GetParam() == kernels::Storage::e4m3) return;  // has none
  got(kOtherBook) = want(kBook);
  expect_only("codebook dropped", "is that of the other moment");
  spoil_one(kOtherBook);
  EXPECT_FALSE(holds_fit("codebook dropped")) << text(diagnosis());
  std::fill(got(kOtherBook).bytes.begin(), got(kOtherBook).bytes.end(), std::byte{});
  EXPECT_EQ(diagnosis().fits.at(0).name, "codebook dropped") << text(diagnosis());
}

TEST_P(EveryStorage, Requantised) {
  quantise(dequantised(want_), got_);
  if (GetParam() == kernels::Storage::e4m3) {
    EXPECT_EQ(got(kCodes).bytes, want(kCodes).bytes) << "448 stands for the largest magnitude";
    EXPECT_EQ(got(kScale).bytes, want(kScale).bytes);
    return;
  }
  expect_only("requantised");
}

TEST_P(EveryStorage, StorageWidthFlippedBothWays) {
  const std::vector<float> values = dequantised(want_);
  const TensorKey plain = {"w", "moment1.values"};
  for (const TensorKey& key : {kCodes, kScale, kBook}) got_.state.tensors.erase(key);
  got_.state.tensors[plain] = tensor_of(Dtype::f32, {kRows, kColumns}, values);
  EXPECT_EQ(expect_only("storage width flipped", "dequantised").of, kRows * kColumns);
  std::swap(want_, got_);
  quantise(values, got_);
  expect_only("storage width flipped", "quantised");
  spoil_one(kCodes);
  const Diagnosis found = diagnosis();
  EXPECT_TRUE(found.fits.empty()) << text(found);
  EXPECT_EQ(found.does_not_fit, std::vector<std::string>{"storage width flipped"}) << text(found);
}

TEST_F(DiagnosisTest, OneStepAhead) {
  for (const TensorKey& key : {kCodes, kScale, kPlain}) got(key) = after_.state.tensors.at(key);
  expect_only("one step ahead");
  has_after_ = false;
  EXPECT_TRUE(diagnosis().fits.empty()) << text(diagnosis());
}

TEST_F(DiagnosisTest, MasterRederivedFromTheParameter) {
  const TensorKey master = {"w", "master"};
  want_.state.tensors[master] = want(kParam);
  std::vector<std::uint16_t> narrow;
  std::vector<float> widened;
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
    narrow.push_back(kernels::round_to_bf16(element<float>(want(kParam), i)));
    widened.push_back(kernels::widen_bf16(narrow.back()));
  }
  want_.state.tensors[kParam] = tensor_of(Dtype::bf16, {kRows, kColumns}, narrow);
  got_.state.tensors[kParam] = want(kParam);
  got_.state.tensors[master] = tensor_of(Dtype::f32, {kRows, kColumns}, widened);
  const Diagnosis found = diagnosis();
  ASSERT_FALSE(found.fits.empty());
  EXPECT_EQ(found.fits[0].name, "master re-derived from the parameter") << text(found);
  EXPECT_EQ(found.fits[0].fits, found.fits[0].of);
  set_element(got(master), 3, 9.F);
  EXPECT_FALSE(holds_fit("master re-derived from the parameter")) << text(diagnosis());
}

TEST_F(DiagnosisTest, ScaledByTheNumberOfRanks) {
  const struct {
    float factor;
    const char* detail;
  } table[] = {{4.F, "times 4"}, {0.25F, "divided by 4"}, {2.F, "times 2"}, {0.5F, "divided by 2"}};
  for (const auto& [factor, detail] : table) {
    change_floats(kScale, [factor = factor](float v) { return v * factor; });
    expect_only("scaled by the number of ranks", detail);
  }
  change_floats(kScale, [](float v) { return v * 3; });
  EXPECT_TRUE(diagnosis().fits.empty()) << "neither mesh has 3 ranks: " << text(diagnosis());
}

TEST_F(DiagnosisTest, ScaledByThreeRanksDividesOrMultipliesByARoundedThird) {
  got_.mesh = "dp3";
  got_.world = 3;
  change_floats(kScale, [](float v) { return v / 3; });
  expect_only("scaled by the number of ranks", "divided by 3");
  change_floats(kScale, [](float v) { return v * (1.F / 3.F); });
  expect_only("scaled by the number of ranks", "times 1/3");
}

TEST_F(DiagnosisTest, ScaledByOneDimOfTheMesh) {
  want_.mesh = "rep2dp4";
  want_.world = 8;
  got_.mesh = "dp1";
  got_.world = 1;
  change_floats(kScale, [](float v) { return v / 4; });
  expect_only("scaled by the number of ranks", "divided by 4");
}

TEST_F(DiagnosisTest, TheSecondMomentScalesBySquares) {
  change_floats(kPlain, [](float v) { return v * 16; });
  expect_only("scaled by the number of ranks", "times 16");
}

TEST_F(DiagnosisTest, ScaledInBf16) {
  std::vector<std::uint16_t> before, after;
  for (int i = 0; i < 6; ++i) {
    before.push_back(kernels::round_to_bf16(element<float>(want(kPlain), i)));
    after.push_back(kernels::round_to_bf16(kernels::widen_bf16(before.back()) / 4));
  }
  want(kPlain) = tensor_of(Dtype::bf16, {6}, before);
  got(kPlain) = tensor_of(Dtype::bf16, {6}, after);
  expect_only("scaled by the number of ranks", "divided by 4");
}

TEST_F(DiagnosisTest, StepRestarted) {
  set_element(got(kStep), 0, 0.F);
  const Diagnosis found = diagnosis();
  ASSERT_FALSE(found.fits.empty());
  EXPECT_EQ(found.fits[0].name, "step restarted") << text(found);
  EXPECT_EQ(found.fits[0].detail, "is 0");
}

TEST_F(DiagnosisTest, AStepThatCountsFromTheLoad) {
  set_element(want(kStep), 0, 5.F);
  set_element(before_.state.tensors.at(kStep), 0, 4.F);
  set_element(got(kStep), 0, 2.F);
  expect_only("step restarted", "counts from the load");
  saved_step_ = -1;
  for (const float step : {2.F, 6.F}) {
    set_element(got(kStep), 0, step);
    EXPECT_TRUE(diagnosis().fits.empty()) << "the save's step is not known: " << text(diagnosis());
  }
}

TEST_F(DiagnosisTest, AStepBehindByOneIsStaleNotRestarted) {
  set_element(got(kStep), 0, 2.F);
  expect_only("one step stale");
}

TEST_F(DiagnosisTest, TwoMistakesAreBothNamedTheLargerFirst) {
  got(kPlain) = before_.state.tensors.at(kPlain);  // 6 elements
  change_floats(kScale, [](float v) { return kernels::widen_bf16(kernels::round_to_bf16(v)); });
  const Diagnosis found = diagnosis();
  ASSERT_EQ(found.fits.size(), 2U) << text(found);
  EXPECT_EQ(found.fits[0].name, "rounded through bf16") << text(found);
  EXPECT_EQ(found.fits[0].fits, 8) << text(found);
  EXPECT_EQ(found.fits[0].of, 14) << text(found);
  EXPECT_EQ(found.fits[1].name, "one step stale") << text(found);
  EXPECT_EQ(found.fits[1].fits, 6) << text(found);
}

TEST_F(DiagnosisTest, AMissingTensorOrAnotherShapeHasNoElementsToExplain) {
  got_.state.tensors.erase(kPlain);
  got(kScale) = floats({1, 2}, kBlock);
  const Diagnosis found = diagnosis();
  EXPECT_TRUE(found.fits.empty()) << text(found);
  EXPECT_TRUE(found.does_not_fit.empty()) << text(found);
}

}  // namespace
}  // namespace resumecheck
