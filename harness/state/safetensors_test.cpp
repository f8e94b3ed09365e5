#include "harness/state/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "harness/state/expect_error.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

constexpr auto kHarness = Error::Kind::harness;

Bytes counting_bytes(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + 1);
  return bytes;
}

// A file of this header and so many data bytes, as someone else might write it.
std::string file_text(const std::string& header, std::size_t data_bytes) {
  std::string text(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(text.data(), &length, 8);
  return text + header + std::string(data_bytes, 'x');
}

void expect_refused(const std::string& text, std::initializer_list<std::string> words) {
  const TemporaryFolder folder;
  write_file(folder / "bad.safetensors", text);
  SCOPED_TRACE(text.substr(std::min<std::size_t>(8, text.size()), 200));
  expect_error(kHarness, {"bad.safetensors"},
               [&] { SafetensorsFile file(folder / "bad.safetensors"); });
  expect_error(kHarness, words, [&] { SafetensorsFile file(folder / "bad.safetensors"); });
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  int begin, int end) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

TEST(Safetensors, RoundTripKeepsDtypesShapesBytesAndMetadata) {
  const TemporaryFolder folder;
  const Bytes bytes = counting_bytes(48);
  const auto first = [&](std::size_t count) { return std::span(bytes).first(count); };
  write_safetensors(folder / "a.safetensors",
                    {{"codes", Dtype::u8, {3, 5}, first(15)},
                     {"empty", Dtype::f32, {0, 4}, {}},
                     {"half \"quoted\" \xc3\xa9", Dtype::bf16, {7}, first(14)},
                     {"step", Dtype::f32, {}, first(4)},
                     {"wide", Dtype::f64, {2, 3}, first(48)}},
                    {{"note", "two\nlines"}});
  const SafetensorsFile file(folder / "a.safetensors");
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"note", "two\nlines"}}));
  std::map<std::string, SafetensorsEntry> entries;
  for (const SafetensorsEntry& e : file.entries()) entries[e.name] = e;
  ASSERT_EQ(entries.size(), 5U);
  EXPECT_EQ(entries["codes"].dtype, Dtype::u8);
  EXPECT_EQ(entries["codes"].shape, (Shape{3, 5}));
  EXPECT_EQ(entries["step"].shape, Shape{});
  EXPECT_EQ(entries["empty"].shape, (Shape{0, 4}));
  EXPECT_EQ(file.read(entries["codes"]), counting_bytes(15));
  EXPECT_EQ(file.read(entries["half \"quoted\" \xc3\xa9"]), counting_bytes(14));
  EXPECT_EQ(file.read(entries["wide"]), counting_bytes(48));
  EXPECT_TRUE(file.read(entries["empty"]).empty());
}

TEST(Safetensors, EveryTensorIsAlignedToItsElements) {
  const TemporaryFolder folder;
  const Bytes bytes = counting_bytes(24);
  const auto first = [&](std::size_t count) { return std::span(bytes).first(count); };
  write_safetensors(folder / "a.safetensors",
                    {{"a", Dtype::u8, {3}, first(3)},
                     {"b", Dtype::f64, {3}, first(24)},
                     {"c", Dtype::f16, {1}, first(2)},
                     {"d", Dtype::f32, {1}, first(4)}},
                    {});
  const SafetensorsFile file(folder / "a.safetensors");
  for (const SafetensorsEntry& e : file.entries()) {
    EXPECT_EQ(e.begin % size_of(e.dtype), 0U) << e.name << " begins at byte " << e.begin;
  }
}

TEST(Safetensors, AFileWithoutTensorsIsAFile) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a.safetensors", {}, {});
  EXPECT_TRUE(SafetensorsFile(folder / "a.safetensors").entries().empty());
}

TEST(Safetensors, TheWriterRefusesWhatItCouldNotReadBack) {
  const TemporaryFolder folder;
  const Bytes bytes = counting_bytes(16);
  const auto write = [&](std::vector<TensorToWrite> tensors,
                         std::map<std::string, std::string> metadata = {}) {
    return [&folder, tensors, metadata] {
      write_safetensors(folder / "a.safetensors", tensors, metadata);
    };
  };
  expect_error(kHarness, {"tensor 'w'", "16 bytes", "needs 12"},
               write({{"w", Dtype::f32, {3}, bytes}}));
  expect_error(kHarness, {"'w' is there twice"},
               write({{"w", Dtype::f32, {4}, bytes}, {"w", Dtype::f32, {4}, bytes}}));
  expect_error(kHarness, {"not UTF-8"}, write({{"w\xff", Dtype::f32, {4}, bytes}}));
  expect_error(kHarness, {"not UTF-8"}, write({}, {{"note", "\xff"}}));
  expect_error(kHarness, {"keeps this name"}, write({{"__metadata__", Dtype::f32, {4}, bytes}}));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "nothing half-written may stay";
}

TEST(Safetensors, HeaderLengthsThatCannotBe) {
  expect_refused("", {"holds 0 bytes"});
  expect_refused("1234567", {"holds 7 bytes"});
  expect_refused(file_text("{}", 0).substr(0, 9), {"byte 0", "does not fit"});
  expect_refused(std::string(8, '\xff') + "{}", {"byte 0", "limit"});
  expect_refused(file_text("", 0), {"byte 8"});
}

TEST(Safetensors, HeadersThatAreNoObject) {
  expect_refused(file_text("[]", 0), {"byte 8", "begin with {"});
  expect_refused(file_text(" {}", 0), {"byte 8", "begin with {"});
  expect_refused(file_text("{\"a\": }", 0), {"byte 14", "not JSON"});
  expect_refused(file_text("{} {}", 0), {"not JSON"});
  expect_refused(file_text("{\"\xff\": 1}", 0), {"not JSON"});
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100'000; ++i) deep += "[";
  expect_refused(file_text(deep, 0), {"levels deep"});
}

TEST(Safetensors, NamesGivenTwice) {
  expect_refused(
      file_text("{" + entry("a", "U8", "[2]", 0, 2) + "," + entry("a", "U8", "[2]", 2, 4) + "}", 4),
      {"'a' is there twice"});
  expect_refused(file_text("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0),
                 {"'k' is there twice"});
  expect_refused(file_text("{\"__metadata__\":{},\"__metadata__\":{}}", 0), {"twice"});
  expect_refused(
      file_text("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"I8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
                2),
      {"'dtype' is there twice"});
}

TEST(Safetensors, MetadataIsStrings) {
  expect_refused(file_text("{\"__metadata__\":{\"k\":1}}", 0), {"'k' is not a string"});
  expect_refused(file_text("{\"__metadata__\":[]}", 0), {"not an object"});
}

TEST(Safetensors, EntriesThatSayTooLittleOrTooMuch) {
  expect_refused(file_text("{\"a\":3}", 0), {"tensor 'a'", "not a JSON object"});
  expect_refused(file_text("{\"a\":{\"dtype\":\"U8\",\"shape\":[2]}}", 2),
                 {"tensor 'a'", "'data_offsets' is missing"});
  expect_refused(
      file_text("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2],\"x\":1}}", 2),
      {"tensor 'a'", "unknown key 'x'"});
  expect_refused(file_text("{" + entry("a", "Q8", "[2]", 0, 2) + "}", 2), {"dtype 'Q8'"});
  expect_refused(file_text("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,1,2]}}", 2),
                 {"not two counts"});
  expect_refused(file_text("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2.0]}}", 2),
                 {"not two counts"});
}

TEST(Safetensors, ShapesThatCannotBe) {
  for (const char* shape :
       {"[-2]", "[2.0]", "[\"2\"]", "2", "[18446744073709551615]", "null", "[1e400]"}) {
    expect_refused(file_text("{" + entry("a", "U8", shape, 0, 2) + "}", 2), {});
  }
  expect_refused(file_text("{" + entry("a", "U8", "[9223372036854775807,2]", 0, 2) + "}", 2),
                 {"tensor 'a'", "63 bits"});
  expect_refused(file_text("{" + entry("a", "F64", "[9223372036854775807]", 0, 8) + "}", 8),
                 {"tensor 'a'", "64 bits"});
  expect_refused(file_text("{" + entry("a", "F32", "[2]", 0, 4) + "}", 4),
                 {"tensor 'a'", "has 4 bytes", "needs 8"});
  expect_refused(file_text("{" + entry("a", "U8", "[2]", 0, 3) + "}", 3),
                 {"tensor 'a'", "has 3 bytes", "needs 2"});
}

TEST(Safetensors, EveryByteBelongsToExactlyOneTensor) {
  const std::string a = entry("a", "U8", "[2]", 0, 2);
  expect_refused(file_text("{" + a + "," + entry("b", "U8", "[2]", 1, 3) + "}", 3),
                 {"'b'", "overlapping"});
  expect_refused(file_text("{" + a + "," + entry("b", "U8", "[2]", 0, 2) + "}", 2),
                 {"'b'", "overlapping"});
  expect_refused(file_text("{" + a + "," + entry("b", "U8", "[2]", 3, 5) + "}", 5), {"'b'", "gap"});
  expect_refused(file_text("{" + entry("a", "U8", "[2]", 1, 3) + "}", 3), {"'a'", "gap"});
  expect_refused(file_text("{" + a + "}", 3), {"1 bytes follow the last tensor"});
  expect_refused(file_text("{" + a + "}", 1), {"tensor 'a'", "beyond the file's 1 data bytes"});
  expect_refused(file_text("{" + entry("a", "U8", "[2]", 2, 0) + "}", 2), {"go backwards"});
  expect_refused(file_text("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[-1,2]}}", 2),
                 {"not two counts"});
}

TEST(Safetensors, OrderInTheHeaderIsFree) {
  const TemporaryFolder folder;
  write_file(folder / "a.safetensors",
             file_text("{" + entry("a", "U8", "[2]", 2, 4) + "," + entry("b", "U8", "[2]", 0, 2) +
                           "," + entry("c", "U8", "[0]", 2, 2) + "}  ",
                       4));
  const SafetensorsFile file(folder / "a.safetensors");
  ASSERT_EQ(file.entries().size(), 3U);
  EXPECT_EQ(file.entries()[0].name, "b") << "entries come in the order of their bytes";
  EXPECT_EQ(file.entries()[1].name, "c");
}

TEST(Safetensors, AFileCutAnywhereIsAnError) {
  const TemporaryFolder folder;
  const Bytes bytes = counting_bytes(16);
  write_safetensors(folder / "a.safetensors", {{"w", Dtype::f32, {4}, bytes}}, {{"k", "v"}});
  const std::string whole = read_file(folder / "a.safetensors");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_file(folder / "cut.safetensors", whole.substr(0, length));
    EXPECT_THROW(SafetensorsFile(folder / "cut.safetensors"), Error)
        << "cut to " << length << " of " << whole.size() << " bytes and still accepted";
  }
}

TEST(Safetensors, AFileThatShrinksWhileOpenIsAnErrorNotACrash) {
  const TemporaryFolder folder;
  const Bytes bytes(100'000);
  write_safetensors(folder / "a.safetensors", {{"w", Dtype::u8, {100'000}, bytes}}, {});
  const SafetensorsFile file(folder / "a.safetensors");
  std::filesystem::resize_file(folder / "a.safetensors", 500);
  expect_error(kHarness, {"a.safetensors, byte 500", "cut short"},
               [&] { file.read(file.entries()[0]); });
}

}  // namespace
}  // namespace resumecheck
