#include "harness/scenario/document.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/scenario/nearest_name.h"
#include "harness/scenario/one_line.h"
#include "harness/state/error.h"

namespace resumecheck {

using Kind = TomlNode::Kind;

std::string Document::place(const TomlNode& node) const {
  return fmt::format("{}:{}:{}", file_, node.line, node.column);
}

std::string Document::line(const TomlNode& node) const {
  return fmt::format("{}:{}", file_, node.line);
}

void Document::refuse(const TomlNode& node, const std::string& what,
                      const std::string& cure) const {
  throw Error(Error::Kind::usage, place(node), one_line(what), one_line(cure));
}

void Document::not_yet(const TomlNode& node, const std::string& what,
                       const std::string& instead) const {
  refuse(node, what + " is not supported yet", instead);
}

void Document::check_keys(const TomlNode& table, const std::string& name, const Names& known,
                          const Names& later) const {
  for (const auto& [key, node] : table.entries) {
    const std::string shown = name.empty() ? key : name + "." + key;
    if (contains(later, key)) not_yet(node, fmt::format("'{}'", shown), "leave it out");
    if (!contains(known, key)) {
      refuse(node, fmt::format("unknown key '{}'", shown), did_you_mean(key, known));
    }
  }
}

const TomlNode& Document::require(const TomlNode& table, std::string_view key,
                                  const char* cure) const {
  if (const TomlNode* node = table.find(key)) return *node;
  refuse(table, fmt::format("'{}' is missing", key), cure);
}

const TomlNode& Document::as(const TomlNode& node, Kind kind, std::string_view key) const {
  if (node.kind != kind) {
    refuse(node, fmt::format("'{}' must be {}, not {}", key, name_of(kind), name_of(node.kind)));
  }
  return node;
}

std::string Document::text(const TomlNode& node, std::string_view key) const {
  const std::string& text = as(node, Kind::text, key).text;
  if (text.empty()) refuse(node, fmt::format("'{}' is empty", key), "say it or leave it out");
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      refuse(node, fmt::format("'{}' holds a control character", key), "write one line");
    }
  }
  return text;
}

std::string Document::choice(const TomlNode& node, std::string_view key, const Names& known,
                             const Names& later) const {
  const std::string chosen = text(node, key);
  if (contains(later, chosen)) {
    not_yet(node, fmt::format("{} = \"{}\"", key, chosen), "known: " + joined(known));
  }
  if (!contains(known, chosen)) {
    refuse(node, fmt::format("'{}' is no {}", chosen, key), did_you_mean(chosen, known));
  }
  return chosen;
}

bool Document::boolean(const TomlNode& node, std::string_view key) const {
  return as(node, Kind::boolean, key).boolean;
}

std::int64_t Document::integer(const TomlNode& node, std::string_view key, std::int64_t least,
                               std::int64_t most) const {
  const std::int64_t value = as(node, Kind::integer, key).integer;
  if (value < least || value > most) {
    refuse(node, fmt::format("'{}' is {}", key, value), fmt::format("write {} to {}", least, most));
  }
  return value;
}

double Document::number(const TomlNode& node, std::string_view key, double least,
                        double below) const {
  if (node.kind != Kind::integer) as(node, Kind::real, key);
  const double value = node.kind == Kind::integer ? static_cast<double>(node.integer) : node.real;
  if (!(value >= least && value < below)) {
    refuse(node, fmt::format("'{}' is outside its range", key),
           below == 1 ? "write at least 0 and less than 1" : "write a finite number from 0 on");
  }
  return value;
}

Names Document::texts(const TomlNode& node, std::string_view key) const {
  Names names;
  for (const TomlNode& item : as(node, Kind::list, key).items) {
    names.push_back(text(item, key));
    if (std::count(names.begin(), names.end(), names.back()) > 1) {
      refuse(item, fmt::format("'{}' stands twice in '{}'", names.back(), key), "write it once");
    }
  }
  return names;
}

Mesh Document::mesh(const TomlNode& node, std::string_view key) const {
  const std::string written = text(node, key);
  try {
    return Mesh::parse(written);
  } catch (const Error& error) {
    refuse(node, error.where() + ": " + error.problem(), error.cure());
  }
}

}  // namespace resumecheck
