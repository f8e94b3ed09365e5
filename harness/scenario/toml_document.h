// A TOML document as a tree that remembers where everything stands, in the order in which it was
// written: error messages need the line, and the order of a model's parameters is the author's. The
// parser library stays behind this header.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace resumecheck {

struct TomlEntry;

struct TomlNode {
  enum class Kind { table, list, text, integer, real, boolean, date };
  Kind kind = Kind::table;
  int line = 1;                    // in the real file
  int column = 1;                  // for a table's entry: of its key
  std::vector<TomlEntry> entries;  // of a table, as written
  std::vector<TomlNode> items;     // of a list
  std::string text;
  std::int64_t integer = 0;
  double real = 0;
  bool boolean = false;

  const TomlNode* find(std::string_view key) const;
};

struct TomlEntry {
  std::string key;
  TomlNode node;
};

std::string_view name_of(TomlNode::Kind kind);  // "a table", "a list", "a text", ...

// Throws Error(usage) with file:line:column. `file` is only for messages; columns_removed is added
// to every column.
TomlNode parse_toml(std::string_view text, const std::string& file, int columns_removed = 0);

}  // namespace resumecheck
