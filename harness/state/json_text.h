// JSON that others wrote. A key given twice, a nesting without end or bytes that are no UTF-8 would
// each be swallowed or blow up in a plain parse; here each is an Error naming the file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>

namespace resumecheck {

// Throws Error(harness) with `where` in front: not JSON (naming the byte), a key twice, more than
// 64 levels. first_byte: where the text begins in its file.
nlohmann::json parse_json(std::string_view text, const std::string& where,
                          std::uint64_t first_byte = 0);

// A field of an object, or Error(harness): "where: KEY is missing" | "KEY is not a TYPE".
const nlohmann::json& field(const nlohmann::json& object, const char* key,
                            const std::string& where);
std::string text_field(const nlohmann::json& object, const char* key, const std::string& where);
std::int64_t integer_field(const nlohmann::json& object, const char* key, const std::string& where);

// Error(harness) naming the first key of the object that is none of these.
void only_keys(const nlohmann::json& object, const std::set<std::string>& allowed,
               const std::string& where);

// Compact text. Bytes that are no UTF-8 become U+FFFD.
std::string dump(const nlohmann::json& value);

}  // namespace resumecheck
