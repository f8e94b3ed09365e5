#include "harness/scenario/toml_document.h"

#include <toml++/toml.h>

#include <algorithm>
#include <utility>

#include "harness/scenario/one_line.h"
#include "harness/state/error.h"

namespace resumecheck {
namespace {

constexpr std::size_t longest_document = 1 << 20;
constexpr std::size_t longest_line = 4000;

std::string place(const std::string& file, long line, long column) {
  return file + ":" + std::to_string(line) + ":" + std::to_string(column);
}

// Nesting by dotted keys is bounded by the length of a line; nested values are bounded by the
// parser itself. So no document can exhaust the stack.
void check_size(std::string_view text, const std::string& file) {
  if (text.size() > longest_document) {
    throw Error(Error::Kind::usage, file, "longer than 1 MiB", "a scenario is a page of text");
  }
  long line = 1;
  for (std::size_t begin = 0; begin <= text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end - begin > longest_line) {
      throw Error(Error::Kind::usage, place(file, line, longest_line),
                  "longer than " + std::to_string(longest_line) + " characters", "break the line");
    }
    begin = end + 1;
  }
}

TomlNode convert(const toml::node& node);

std::vector<TomlEntry> convert_entries(const toml::table& table) {
  std::vector<TomlEntry> entries;
  for (const auto& [key, value] : table) {
    TomlNode node = convert(value);
    node.line = static_cast<int>(key.source().begin.line);
    node.column = static_cast<int>(key.source().begin.column);
    entries.push_back({std::string(key.str()), std::move(node)});
  }
  std::stable_sort(entries.begin(), entries.end(), [](const auto& left, const auto& right) {
    return std::pair{left.node.line, left.node.column} <
           std::pair{right.node.line, right.node.column};
  });
  return entries;
}

TomlNode convert(const toml::node& node) {
  TomlNode result;
  result.line = static_cast<int>(node.source().begin.line);
  result.column = static_cast<int>(node.source().begin.column);
  if (const auto* table = node.as_table()) {
    result.entries = convert_entries(*table);
  } else if (const auto* list = node.as_array()) {
    result.kind = TomlNode::Kind::list;
    for (const toml::node& item : *list) result.items.push_back(convert(item));
  } else if (const auto* text = node.as_string()) {
    result.kind = TomlNode::Kind::text;
    result.text = text->get();
  } else if (const auto* integer = node.as_integer()) {
    result.kind = TomlNode::Kind::integer;
    result.integer = integer->get();
  } else if (const auto* real = node.as_floating_point()) {
    result.kind = TomlNode::Kind::real;
    result.real = real->get();
  } else if (const auto* boolean = node.as_boolean()) {
    result.kind = TomlNode::Kind::boolean;
    result.boolean = boolean->get();
  } else {
    result.kind = TomlNode::Kind::date;
  }
  return result;
}

void shift_columns(TomlNode& node, int columns) {
  node.column += columns;
  for (auto& [key, entry] : node.entries) shift_columns(entry, columns);
  for (TomlNode& item : node.items) shift_columns(item, columns);
}

}  // namespace

const TomlNode* TomlNode::find(std::string_view key) const {
  for (const auto& [name, node] : entries) {
    if (name == key) return &node;
  }
  return nullptr;
}

std::string_view name_of(TomlNode::Kind kind) {
  switch (kind) {
    case TomlNode::Kind::table:
      return "a table";
    case TomlNode::Kind::list:
      return "a list";
    case TomlNode::Kind::text:
      return "a text";
    case TomlNode::Kind::integer:
      return "an integer";
    case TomlNode::Kind::real:
      return "a real number";
    case TomlNode::Kind::boolean:
      return "true or false";
    case TomlNode::Kind::date:
      return "a date";
  }
  return "nothing";
}

TomlNode parse_toml(std::string_view text, const std::string& file, int columns_removed) {
  check_size(text, file);
  try {
    TomlNode document = convert(toml::parse(text));
    shift_columns(document, columns_removed);
    return document;
  } catch (const toml::parse_error& error) {
    const auto& begin = error.source().begin;
    throw Error(Error::Kind::usage, place(file, begin.line, begin.column + columns_removed),
                one_line(error.description()), "mend the TOML");
  }
}

}  // namespace resumecheck
