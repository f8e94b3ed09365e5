#include "harness/state/state_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "harness/state/error.h"
#include "harness/state/json_text.h"
#include "harness/state/safetensors.h"

namespace resumecheck {
namespace {

using nlohmann::json;

constexpr const char* kEntry = "resumecheck";  // of the safetensors metadata

Error bad_state(const std::string& where, const std::string& what) {
  return Error(Error::Kind::harness, where, what, "a state file of schema 1 is needed");
}

// JSON has no word for these three; a learning rate may well be one of them.
json to_json(double value) {
  if (std::isfinite(value)) return value;
  return {{"nonfinite", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"}};
}

json to_json(const Value& value) {
  if (const double* number = std::get_if<double>(&value)) return to_json(*number);
  return std::visit([](const auto& held) { return json(held); }, value);
}

json to_json(const std::map<std::string, Value>& values) {
  json object = json::object();
  for (const auto& [name, value] : values) object[name] = to_json(value);
  return object;
}

double nonfinite_from_json(const json& object, const std::string& where) {
  only_keys(object, {"nonfinite"}, where);
  const std::string text = text_field(object, "nonfinite", where);
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  throw bad_state(where, "'nonfinite' is none of nan, inf, -inf");
}

Value value_from_json(const json& value, const std::string& where) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_float()) return value.get<double>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object()) return nonfinite_from_json(value, where);
  if (value.is_number_integer() &&
      !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX)) {
    return value.get<std::int64_t>();
  }
  throw bad_state(where, "is neither a scalar of 64 bits nor a string");
}

std::map<std::string, Value> values_from_json(const json& object, const std::string& where) {
  std::map<std::string, Value> values;
  if (!object.is_object()) throw bad_state(where, "'values' is not an object");
  for (const auto& item : object.items()) {
    values.emplace(item.key(),
                   value_from_json(item.value(), where + ", value '" + item.key() + "'"));
  }
  return values;
}

// One box of a tensor is NAME/PART, of several each is NAME/PART/K.
std::vector<std::string> piece_keys(const std::vector<Piece>& pieces) {
  std::map<TensorKey, int> boxes;
  std::map<TensorKey, int> used;
  for (const Piece& piece : pieces) ++boxes[piece.key];
  std::vector<std::string> keys;
  for (const Piece& piece : pieces) {
    const std::string key = piece.key.name + "/" + piece.key.part;
    keys.push_back(boxes[piece.key] == 1 ? key : fmt::format("{}/{}", key, used[piece.key]++));
  }
  return keys;
}

json describe(const Piece& piece) {
  return {{"name", piece.key.name},
          {"part", piece.key.part},
          {"dtype", name_of(piece.dtype)},
          {"global_shape", piece.global_shape},
          {"offsets", piece.box.offsets()},
          {"shape", piece.box.sizes()},
          {"block", piece.block}};
}

void check_box(const Piece& piece, const std::string& where) {
  if (piece.block < 0) throw bad_state(where, "'block' is negative");
  if (!piece.box.inside(piece.global_shape)) {
    throw bad_state(where, "box " + to_text(piece.box) + " reaches outside the global shape " +
                               to_text(piece.global_shape));
  }
}

Shape shape_field(const json& object, const char* key, const std::string& where) {
  const json& sizes = field(object, key, where);
  const auto is_size = [](const json& size) {
    return size.is_number_unsigned() && size.get<std::uint64_t>() <= INT64_MAX;
  };
  if (!sizes.is_array() || !std::all_of(sizes.begin(), sizes.end(), is_size)) {
    throw bad_state(where, fmt::format("'{}' is not a list of counts of 63 bits", key));
  }
  return sizes.get<Shape>();
}

Piece piece_from_json(const json& object, const SafetensorsEntry& entry, const std::string& where) {
  only_keys(object, {"name", "part", "dtype", "global_shape", "offsets", "shape", "block"}, where);
  Piece piece;
  piece.key = {text_field(object, "name", where), text_field(object, "part", where)};
  piece.dtype = entry.dtype;
  piece.global_shape = shape_field(object, "global_shape", where);
  piece.block = integer_field(object, "block", where);
  const std::string dtype = text_field(object, "dtype", where);
  if (dtype != name_of(entry.dtype)) {
    throw bad_state(
        where, fmt::format("is described as {}, but stored as {}", dtype, name_of(entry.dtype)));
  }
  const Shape shape = shape_field(object, "shape", where);
  if (shape != entry.shape) {
    throw bad_state(
        where, "is described as " + to_text(shape) + ", but stored as " + to_text(entry.shape));
  }
  try {
    piece.box = Box(shape_field(object, "offsets", where), shape);
    element_count(piece.global_shape);
  } catch (const Error& error) {
    throw bad_state(where, error.problem());
  }
  check_box(piece, where);
  return piece;
}

std::vector<Piece> read_pieces(const json& described, const SafetensorsFile& file,
                               const std::string& where) {
  if (!described.is_object()) throw bad_state(where, "'tensors' is not an object");
  std::vector<Piece> pieces;
  for (const SafetensorsEntry& entry : file.entries()) {
    const std::string place = where + ", tensor '" + entry.name + "'";
    const auto description = described.find(entry.name);
    if (description == described.end()) {
      throw bad_state(place, "is stored, but not described in the metadata");
    }
    Piece piece = piece_from_json(*description, entry, place);
    piece.bytes = file.read(entry);
    pieces.push_back(std::move(piece));
  }
  for (const auto& item : described.items()) {
    const auto is_it = [&](const SafetensorsEntry& entry) { return entry.name == item.key(); };
    if (described.size() != pieces.size() &&
        std::none_of(file.entries().begin(), file.entries().end(), is_it)) {
      throw bad_state(where + ", tensor '" + item.key() + "'",
                      "is described in the metadata, but not stored");
    }
  }
  return pieces;
}

int rank_number(const json& object, const char* key, int least, const std::string& where) {
  const std::int64_t number = integer_field(object, key, where);
  if (number < least || number > 1'000'000) {
    throw bad_state(where, fmt::format("'{}' is {}, which no mesh has", key, number));
  }
  return static_cast<int>(number);
}

std::map<std::string, int> coordinates_from_json(const json& object, const std::string& where) {
  std::map<std::string, int> coordinates;
  if (!object.is_object()) throw bad_state(where, "'coordinates' is not an object");
  for (const auto& item : object.items()) {
    coordinates.emplace(item.key(), rank_number(object, item.key().c_str(), 0, where));
  }
  return coordinates;
}

json parse_entry(const SafetensorsFile& file, const std::string& where) {
  const auto entry = file.metadata().find(kEntry);
  if (entry == file.metadata().end()) {
    throw bad_state(where, "its metadata has no entry 'resumecheck'");
  }
  json object = parse_json(entry->second, where + ", metadata entry 'resumecheck'");
  if (integer_field(object, "schema", where) != 1) throw bad_state(where, "'schema' is not 1");
  return object;
}

}  // namespace

std::string state_file_name(int rank) { return fmt::format("state_rank{}.safetensors", rank); }

void write_rank_state(const std::filesystem::path& directory, const RankState& state) {
  const std::filesystem::path file = directory / state_file_name(state.rank);
  const std::vector<std::string> keys = piece_keys(state.pieces);
  json described = json::object();
  std::vector<TensorToWrite> tensors;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Piece& piece = state.pieces[i];
    check_box(piece, file.string() + ", tensor '" + keys[i] + "'");
    described[keys[i]] = describe(piece);
    tensors.push_back({keys[i], piece.dtype, piece.box.sizes(), piece.bytes});
  }
  const json entry = {{"schema", 1},
                      {"rank", state.rank},
                      {"world", state.world},
                      {"mesh", state.mesh},
                      {"coordinates", state.coordinates},
                      {"step", state.step},
                      {"tensors", described},
                      {"values", to_json(state.values)}};
  std::error_code reason;
  std::filesystem::create_directories(directory, reason);
  if (reason) {
    throw Error(Error::Kind::harness, directory.string(), "cannot be made: " + reason.message());
  }
  write_safetensors(file, std::move(tensors), {{kEntry, dump(entry)}},
                    Durability::survives_the_process);
}

RankState read_rank_state(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  const std::string where = path.string();
  const json entry = parse_entry(file, where);
  only_keys(entry, {"schema", "rank", "world", "mesh", "coordinates", "step", "tensors", "values"},
            where);
  RankState state;
  state.rank = rank_number(entry, "rank", 0, where);
  state.world = rank_number(entry, "world", 1, where);
  if (state.rank >= state.world) {
    throw bad_state(where, fmt::format("rank {} of a world of {}", state.rank, state.world));
  }
  state.mesh = text_field(entry, "mesh", where);
  state.coordinates = coordinates_from_json(field(entry, "coordinates", where), where);
  state.step = integer_field(entry, "step", where);
  state.values = values_from_json(field(entry, "values", where), where);
  state.pieces = read_pieces(field(entry, "tensors", where), file, where);
  return state;
}

void write_logical_state(const std::filesystem::path& file, const LogicalState& state) {
  std::vector<TensorToWrite> tensors;
  json blocks = json::object();
  for (const auto& [key, tensor] : state.tensors) {
    const std::string name = key.name + "/" + key.part;
    tensors.push_back({name, tensor.dtype, tensor.shape, tensor.bytes});
    if (tensor.block != 0) blocks[name] = tensor.block;
  }
  write_safetensors(file, std::move(tensors),
                    {{"step", std::to_string(state.step)},
                     {"blocks", dump(blocks)},
                     {"values", dump(to_json(state.values))}});
}

}  // namespace resumecheck
