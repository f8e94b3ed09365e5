#include "harness/state/state_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "harness/state/expect_error.h"
#include "harness/state/safetensors.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

using nlohmann::json;
constexpr auto kHarness = Error::Kind::harness;

Piece piece(const std::string& name, const std::string& part, Dtype dtype, Shape global, Box box,
            std::int64_t block = 0) {
  Piece result{{name, part}, dtype, std::move(global), std::move(box), block, {}};
  result.bytes.resize(result.box.element_count() * size_of(dtype));
  for (std::size_t i = 0; i < result.bytes.size(); ++i) {
    result.bytes[i] = static_cast<std::byte>(i + 3);
  }
  return result;
}

RankState rank_state() {
  RankState state;
  state.rank = 1;
  state.world = 2;
  state.mesh = "dp2";
  state.coordinates = {{"dp", 1}};
  state.step = 3;
  state.pieces = {piece("ffn.up", "moment1.codes", Dtype::u8, {4, 6}, Box({2, 0}, {2, 6}), 8),
                  piece("ffn.up", "moment1.scale", Dtype::f32, {3}, Box({1}, {2}), 8),
                  piece("ffn.up", "step", Dtype::f32, {}, Box())};
  state.values = {{"lr/0", 1e-3},
                  {"count", std::int64_t{7}},
                  {"amsgrad", false},
                  {"kind", std::string("cosine")}};
  return state;
}

TEST(StateFile, RoundTrip) {
  const TemporaryFolder folder;
  const RankState state = rank_state();
  write_rank_state(folder / "states/step3", state);
  const RankState read = read_rank_state(folder / "states/step3/state_rank1.safetensors");
  EXPECT_EQ(read.rank, 1);
  EXPECT_EQ(read.world, 2);
  EXPECT_EQ(read.mesh, "dp2");
  EXPECT_EQ(read.coordinates, state.coordinates);
  EXPECT_EQ(read.step, 3);
  EXPECT_EQ(read.values, state.values) << "a value keeps its type and all its digits";
  ASSERT_EQ(read.pieces.size(), state.pieces.size());
  for (const Piece& want : state.pieces) {
    const auto got = std::find_if(read.pieces.begin(), read.pieces.end(),
                                  [&](const Piece& p) { return p.key == want.key; });
    ASSERT_NE(got, read.pieces.end()) << to_text(want.key);
    EXPECT_EQ(got->dtype, want.dtype) << to_text(want.key);
    EXPECT_EQ(got->global_shape, want.global_shape) << to_text(want.key);
    EXPECT_EQ(got->box, want.box) << to_text(want.key);
    EXPECT_EQ(got->block, want.block) << to_text(want.key);
    EXPECT_EQ(got->bytes, want.bytes) << to_text(want.key);
  }
}

TEST(StateFile, NumbersWithoutAJsonWordSurvive) {
  const TemporaryFolder folder;
  RankState state = rank_state();
  state.values = {{"a", std::numeric_limits<double>::infinity()},
                  {"b", -std::numeric_limits<double>::infinity()},
                  {"c", std::nan("")},
                  {"d", -0.0},
                  {"e", 0x1.fffffffffffffp-1000}};
  write_rank_state(folder.path(), state);
  const RankState read = read_rank_state(folder / "state_rank1.safetensors");
  EXPECT_EQ(read.values.at("a"), state.values["a"]);
  EXPECT_EQ(read.values.at("b"), state.values["b"]);
  EXPECT_TRUE(std::isnan(std::get<double>(read.values.at("c"))));
  EXPECT_TRUE(std::signbit(std::get<double>(read.values.at("d"))));
  EXPECT_EQ(read.values.at("e"), state.values["e"]);
}

TEST(StateFile, SeveralBoxesOfOneTensor) {
  const TemporaryFolder folder;
  RankState state = rank_state();
  state.pieces = {piece("w", "param", Dtype::f32, {8}, Box({0}, {2})),
                  piece("w", "param", Dtype::f32, {8}, Box({4}, {1}))};
  write_rank_state(folder.path(), state);
  const SafetensorsFile file(folder / "state_rank1.safetensors");
  EXPECT_EQ(file.entries()[0].name, "w/param/0");
  EXPECT_EQ(file.entries()[1].name, "w/param/1");
  const RankState read = read_rank_state(folder / "state_rank1.safetensors");
  EXPECT_EQ(read.pieces[1].box, Box({4}, {1}));
}

TEST(StateFile, TheWriterRefusesABoxOutsideItsTensor) {
  const TemporaryFolder folder;
  RankState state = rank_state();
  state.pieces = {piece("w", "param", Dtype::f32, {8}, Box({6}, {3}))};
  expect_error(kHarness, {"w/param", "outside the global shape [8]"},
               [&] { write_rank_state(folder.path(), state); });
}

TEST(StateFile, AFolderThatCannotBeMadeIsNamed) {
  const TemporaryFolder folder;
  write_file(folder / "file", "x");
  expect_error(kHarness, {"file/below", "cannot be made"},
               [&] { write_rank_state(folder / "file/below", rank_state()); });
}

// A state file whose description was changed, as a broken adapter would write it.
class Tampered {
 public:
  Tampered() {
    write_rank_state(folder_.path(), rank_state());
    const SafetensorsFile file(path());
    for (const SafetensorsEntry& entry : file.entries()) {
      bytes_.push_back(file.read(entry));
      entries_.push_back(entry);
    }
    description_ = json::parse(file.metadata().at("resumecheck"));
  }
  void change(const std::string& pointer, const std::string& value) {
    const json::json_pointer at(pointer);
    if (value.empty()) {
      description_[at.parent_pointer()].erase(at.back());
    } else {
      description_[at] = json::parse(value);
    }
  }
  void expect_refused(std::initializer_list<std::string> words) {
    expect_refused(description_.dump(), words);
  }
  void expect_refused(const std::string& text, std::initializer_list<std::string> words) {
    write({{"resumecheck", text}});
    SCOPED_TRACE(text);
    expect_error(kHarness, {"state_rank1.safetensors"}, [&] { read_rank_state(path()); });
    expect_error(kHarness, words, [&] { read_rank_state(path()); });
  }
  void write(const std::map<std::string, std::string>& metadata) {
    std::vector<TensorToWrite> tensors;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      tensors.push_back({entries_[i].name, entries_[i].dtype, entries_[i].shape, bytes_[i]});
    }
    write_safetensors(path(), tensors, metadata);
  }
  std::filesystem::path path() const { return folder_ / "state_rank1.safetensors"; }

 private:
  TemporaryFolder folder_;
  std::vector<Bytes> bytes_;
  std::vector<SafetensorsEntry> entries_;
  json description_;
};

TEST(StateFile, WithoutTheEntryItIsNoStateFile) {
  Tampered file;
  file.write({});
  expect_error(kHarness, {"no entry 'resumecheck'"}, [&] { read_rank_state(file.path()); });
  file.expect_refused("{", {"metadata entry 'resumecheck'", "not JSON"});
  file.expect_refused("[]", {"not a JSON object"});
  file.expect_refused("{\"schema\":1,\"schema\":1}", {"twice"});
}

TEST(StateFile, EachFieldIsChecked) {
  // value: JSON as text ("": the field is taken out); a table of json objects takes sanitizing
  // compilers minutes.
  const struct {
    const char* pointer;
    const char* value;
    const char* word;
  } table[] = {
      {"/schema", "2", "'schema' is not 1"},
      {"/rank", "", "'rank' is missing"},
      {"/rank", "2", "rank 2 of a world of 2"},
      {"/rank", "-1", "'rank' is -1"},
      {"/rank", "\"1\"", "'rank' is not an integer"},
      {"/world", "0", "'world' is 0"},
      {"/mesh", "3", "'mesh' is not a string"},
      {"/coordinates", "[]", "'coordinates'"},
      {"/coordinates/dp", "1.5", "'dp' is not an integer"},
      {"/step", "3.0", "'step' is not an integer"},
      {"/values", "[]", "'values' is not an object"},
      {"/values/lr~10", "[]", "value 'lr/0'"},
      {"/values/lr~10", "18446744073709551615", "value 'lr/0'"},
      {"/values/lr~10", "{\"nonfinite\": \"huge\"}", "value 'lr/0'"},
      {"/more", "1", "unknown key 'more'"},
      {"/tensors", "[]", "'tensors' is not an object"},
      {"/tensors/ffn.up~1step", "", "stored, but not described"},
      {"/tensors/ghost", "{}", "described in the metadata, but not stored"},
      {"/tensors/ffn.up~1step/dtype", "\"BF16\"", "described as BF16, but stored as F32"},
      {"/tensors/ffn.up~1step/more", "1", "unknown key 'more'"},
      {"/tensors/ffn.up~1step/block", "-1", "'block' is negative"},
      {"/tensors/ffn.up~1step/block", "", "'block' is missing"},
      {"/tensors/ffn.up~1moment1.scale/shape", "[3]", "described as [3], but stored as [2]"},
      {"/tensors/ffn.up~1moment1.scale/offsets", "[2]", "outside the global shape [3]"},
      {"/tensors/ffn.up~1moment1.scale/offsets", "[-1]", "'offsets' is not a list of counts"},
      {"/tensors/ffn.up~1moment1.scale/offsets", "[1, 0]", "dimension"},
      {"/tensors/ffn.up~1moment1.scale/offsets", "[9223372036854775807]", "63 bits"},
      {"/tensors/ffn.up~1moment1.scale/global_shape", "[3, 3]", "outside the global shape"},
      {"/tensors/ffn.up~1moment1.scale/global_shape", "[1.5]", "'global_shape'"},
      {"/tensors/ffn.up~1moment1.codes/global_shape", "[9223372036854775807, 4]", "63 bits"},
  };
  for (const auto& [pointer, value, word] : table) {
    Tampered file;
    file.change(pointer, value);
    SCOPED_TRACE(pointer);
    file.expect_refused({word});
  }
}

TEST(StateFile, TheWantAndGotFilesAreOrdinarySafetensors) {
  const TemporaryFolder folder;
  LogicalState state;
  state.step = 4;
  state.tensors[{"w", "param"}] = {Dtype::f32, {2}, 0, Bytes(8, std::byte{1})};
  state.tensors[{"w", "moment1.codes"}] = {Dtype::u8, {2}, 256, Bytes(2, std::byte{9})};
  state.values["lr/0"] = 0.5;
  write_logical_state(folder / "want.safetensors", state);
  const SafetensorsFile file(folder / "want.safetensors");
  ASSERT_EQ(file.entries().size(), 2U);
  EXPECT_EQ(file.entries()[0].name, "w/param");
  EXPECT_EQ(file.read(file.entries()[0]), Bytes(8, std::byte{1}));
  EXPECT_EQ(file.metadata().at("step"), "4");
  EXPECT_EQ(file.metadata().at("blocks"), "{\"w/moment1.codes\":256}");
  EXPECT_EQ(file.metadata().at("values"), "{\"lr/0\":0.5}");
}

}  // namespace
}  // namespace resumecheck
