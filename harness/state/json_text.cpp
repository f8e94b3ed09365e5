#include "harness/state/json_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "harness/state/error.h"

namespace resumecheck {
namespace {

using nlohmann::json;

constexpr int kDeepest = 64;

Error bad_json(const std::string& where, const std::string& what) {
  return Error(Error::Kind::harness, where, what);
}

// Told of everything that the parser meets; keeps the keys of each open object.
class KeyWatch {
 public:
  explicit KeyWatch(const std::string& where) : where_(where) {}

  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    if (depth > kDeepest) {
      throw bad_json(where_, fmt::format("JSON nested more than {} levels deep", kDeepest));
    }
    if (event == json::parse_event_t::object_start) keys_.emplace_back();
    if (event == json::parse_event_t::object_end) keys_.pop_back();
    if (event == json::parse_event_t::key) {
      const std::string& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) {
        throw bad_json(where_, "the key '" + key + "' is there twice");
      }
    }
    return true;
  }

 private:
  const std::string& where_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

json parse_json(std::string_view text, const std::string& where, std::uint64_t first_byte) {
  KeyWatch watch(where);
  try {
    return json::parse(text.begin(), text.end(),
                       [&](int depth, json::parse_event_t event, json& parsed) {
                         return watch(depth, event, parsed);
                       });
  } catch (const json::parse_error& error) {
    throw bad_json(
        fmt::format("{}, byte {}", where, first_byte + (error.byte ? error.byte - 1 : 0)),
        "not JSON");
  } catch (const json::exception& error) {  // a number beyond every type
    throw bad_json(where, std::string("not JSON: ") + error.what());
  }
}

const json& field(const json& object, const char* key, const std::string& where) {
  if (!object.is_object()) throw bad_json(where, "is not a JSON object");
  const auto found = object.find(key);
  if (found == object.end()) throw bad_json(where, fmt::format("'{}' is missing", key));
  return *found;
}

std::string text_field(const json& object, const char* key, const std::string& where) {
  const json& value = field(object, key, where);
  if (!value.is_string()) throw bad_json(where, fmt::format("'{}' is not a string", key));
  return value.get<std::string>();
}

std::int64_t integer_field(const json& object, const char* key, const std::string& where) {
  const json& value = field(object, key, where);
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX)) {
    throw bad_json(where, fmt::format("'{}' is not an integer of 64 bits", key));
  }
  return value.get<std::int64_t>();
}

void only_keys(const json& object, const std::set<std::string>& allowed, const std::string& where) {
  if (!object.is_object()) throw bad_json(where, "is not a JSON object");
  for (const auto& item : object.items()) {
    if (!allowed.contains(item.key())) {
      throw bad_json(where, fmt::format("unknown key '{}'", item.key()));
    }
  }
}

std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace resumecheck
