#include "harness/state/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <tuple>

#include "harness/state/error.h"
#include "harness/state/json_text.h"

namespace resumecheck {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "tensor bytes are written as they lie");

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // the official reader's limit
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kCure = "the file is damaged or was not written as safetensors";

Error bad_file(const std::string& where, const std::string& what) {
  return Error(Error::Kind::harness, where, what, kCure);
}

std::map<std::string, std::string> read_metadata(const json& object, const std::string& where) {
  std::map<std::string, std::string> metadata;
  if (!object.is_object()) throw bad_file(where, "__metadata__ is not an object");
  for (const auto& item : object.items()) {
    if (!item.value().is_string()) {
      throw bad_file(where, "__metadata__ entry '" + item.key() + "' is not a string");
    }
    metadata.emplace(item.key(), item.value().get<std::string>());
  }
  return metadata;
}

bool is_count(const json& value) {
  return value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX;
}

Shape read_shape(const json& sizes, const std::string& tensor) {
  if (!sizes.is_array() || !std::all_of(sizes.begin(), sizes.end(), is_count)) {
    throw bad_file(tensor, "shape " + dump(sizes) + " is not a list of counts of 63 bits");
  }
  return sizes.get<Shape>();
}

Dtype read_dtype(const std::string& text, const std::string& tensor) {
  const std::optional<Dtype> dtype = parse_dtype(text);
  if (!dtype) throw bad_file(tensor, "dtype '" + text + "' is none that is known");
  return *dtype;
}

std::uint64_t bytes_of(Dtype dtype, const Shape& shape, const std::string& tensor) {
  std::uint64_t bytes = 0;
  try {
    bytes = static_cast<std::uint64_t>(element_count(shape));
  } catch (const Error& error) {
    throw bad_file(tensor, error.problem());
  }
  if (__builtin_mul_overflow(bytes, size_of(dtype), &bytes)) {
    throw bad_file(tensor, "shape " + to_text(shape) + " has more bytes than 64 bits can count");
  }
  return bytes;
}

SafetensorsEntry read_entry(const std::string& name, const json& object, std::uint64_t data_begin,
                            std::uint64_t data_bytes, const std::string& where) {
  const std::string tensor = where + ", tensor '" + name + "'";
  only_keys(object, {"dtype", "shape", "data_offsets"}, tensor);
  SafetensorsEntry entry;
  entry.name = name;
  entry.dtype = read_dtype(text_field(object, "dtype", tensor), tensor);
  entry.shape = read_shape(field(object, "shape", tensor), tensor);
  const json& offsets = field(object, "data_offsets", tensor);
  if (!offsets.is_array() || offsets.size() != 2 || !is_count(offsets[0]) ||
      !is_count(offsets[1])) {
    throw bad_file(tensor, "data_offsets " + dump(offsets) + " are not two counts");
  }
  const std::uint64_t begin = offsets[0].get<std::uint64_t>();
  const std::uint64_t end = offsets[1].get<std::uint64_t>();
  if (begin > end)
    throw bad_file(tensor, fmt::format("data_offsets [{}, {}] go backwards", begin, end));
  if (end > data_bytes) {
    throw bad_file(tensor, fmt::format("data_offsets [{}, {}] end beyond the file's {} data bytes",
                                       begin, end, data_bytes));
  }
  const std::uint64_t needed = bytes_of(entry.dtype, entry.shape, tensor);
  if (needed != end - begin) {
    throw bad_file(tensor, fmt::format("has {} bytes, but {} {} needs {}", end - begin,
                                       name_of(entry.dtype), to_text(entry.shape), needed));
  }
  entry.begin = data_begin + begin;
  entry.bytes = needed;
  return entry;
}

// Every data byte belongs to one tensor: no gap, no overlap, nothing behind the last.
void check_tiling(const std::vector<SafetensorsEntry>& entries, std::uint64_t data_begin,
                  std::uint64_t file_size, const std::string& where) {
  std::uint64_t reached = data_begin;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != reached) {
      throw bad_file(
          fmt::format("{}, byte {}", where, std::min(entry.begin, reached)),
          fmt::format("tensor '{}' begins at byte {}, {} byte {}, where the one before "
                      "it ends",
                      entry.name, entry.begin,
                      entry.begin < reached ? "overlapping what reaches to" : "leaving a gap after",
                      reached));
    }
    reached += entry.bytes;
  }
  if (reached != file_size) {
    throw bad_file(fmt::format("{}, byte {}", where, reached),
                   fmt::format("{} bytes follow the last tensor", file_size - reached));
  }
}

std::uint64_t read_header_size(const FileReader& reader) {
  const std::string where = reader.file().string();
  if (reader.size() < kLengthBytes) {
    throw bad_file(where, fmt::format("holds {} bytes, fewer than the 8 of the header's length",
                                      reader.size()));
  }
  std::array<std::byte, kLengthBytes> bytes;
  reader.read(0, bytes);
  const auto size = std::bit_cast<std::uint64_t>(bytes);
  if (size > kLongestHeader) {
    throw bad_file(where + ", byte 0", fmt::format("a header of {} bytes is over the limit of {}",
                                                   size, kLongestHeader));
  }
  if (size > reader.size() - kLengthBytes) {
    throw bad_file(
        where + ", byte 0",
        fmt::format("a header of {} bytes does not fit into the file's {}", size, reader.size()));
  }
  return size;
}

SafetensorsHeader read_header(const FileReader& reader) {
  std::string text(read_header_size(reader), '\0');
  reader.read(kLengthBytes, std::as_writable_bytes(std::span(text.data(), text.size())));
  return parse_safetensors_header(text, reader.size(), reader.file().string());
}

void check_lengths(const std::vector<TensorToWrite>& tensors, const std::string& where) {
  for (const TensorToWrite& tensor : tensors) {
    const std::string place = where + ", tensor '" + tensor.name + "'";
    const std::uint64_t needed = bytes_of(tensor.dtype, tensor.shape, place);
    if (tensor.name == kMetadata) {
      throw Error(Error::Kind::harness, place, "cannot be written: the format keeps this name");
    }
    if (tensor.bytes.size() != needed) {
      throw Error(
          Error::Kind::harness, place,
          fmt::format("cannot be written: it has {} bytes, but {} {} needs {}", tensor.bytes.size(),
                      name_of(tensor.dtype), to_text(tensor.shape), needed));
    }
  }
}

bool written_before(const TensorToWrite& left, const TensorToWrite& right) {
  const std::size_t left_size = size_of(left.dtype);
  const std::size_t right_size = size_of(right.dtype);
  return left_size != right_size ? left_size > right_size : left.name < right.name;
}

std::string header_text(const std::vector<TensorToWrite>& tensors,
                        const std::map<std::string, std::string>& metadata,
                        const std::string& where) {
  json header = json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::uint64_t end = 0;
  for (const TensorToWrite& tensor : tensors) {
    const std::uint64_t begin = end;
    end += tensor.bytes.size();
    const bool is_new = header
                            .emplace(tensor.name, json{{"dtype", name_of(tensor.dtype)},
                                                       {"shape", tensor.shape},
                                                       {"data_offsets", {begin, end}}})
                            .second;
    if (!is_new) {
      throw Error(Error::Kind::harness, where,
                  "cannot be written: tensor '" + tensor.name + "' is there twice");
    }
  }
  try {
    std::string text = header.dump();
    text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
    return text;
  } catch (const json::type_error& error) {
    throw Error(Error::Kind::harness, where,
                "cannot be written: a name or a metadata entry is not UTF-8");
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t file_size,
                                           const std::string& where) {
  if (!text.starts_with('{')) {
    throw bad_file(fmt::format("{}, byte {}", where, kLengthBytes),
                   "the header does not begin with {");
  }
  const json object = parse_json(text, where, kLengthBytes);
  const std::uint64_t data_begin = kLengthBytes + text.size();
  SafetensorsHeader header;
  for (const auto& item : object.items()) {
    if (item.key() == kMetadata) {
      header.metadata = read_metadata(item.value(), where);
    } else {
      header.entries.push_back(
          read_entry(item.key(), item.value(), data_begin, file_size - data_begin, where));
    }
  }
  std::sort(header.entries.begin(), header.entries.end(),
            [](const SafetensorsEntry& left, const SafetensorsEntry& right) {
              return std::tie(left.begin, left.bytes) < std::tie(right.begin, right.bytes);
            });
  check_tiling(header.entries, data_begin, file_size, where);
  return header;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& file)
    : reader_(file), header_(read_header(reader_)) {}

Bytes SafetensorsFile::read(const SafetensorsEntry& entry) const {
  Bytes bytes(entry.bytes);
  reader_.read(entry.begin, bytes);
  return bytes;
}

void write_safetensors(const std::filesystem::path& file, std::vector<TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata, Durability durability) {
  check_lengths(tensors, file.string());
  std::sort(tensors.begin(), tensors.end(), written_before);
  const std::string header = header_text(tensors, metadata, file.string());
  const auto length =
      std::bit_cast<std::array<std::byte, kLengthBytes>>(static_cast<std::uint64_t>(header.size()));
  std::vector<std::span<const std::byte>> pieces = {
      length, std::as_bytes(std::span(header.data(), header.size()))};
  for (const TensorToWrite& tensor : tensors) pieces.push_back(tensor.bytes);
  write_file(file, pieces, durability);
}

}  // namespace resumecheck
