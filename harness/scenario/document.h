// Reads values out of the document of one scenario file; every error names the place of the value
// it is about. What the schema names but nothing can do yet is refused by name, as a key that is
// read and ignored would make a scenario claim what it does not test.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "harness/scenario/mesh.h"
#include "harness/scenario/names.h"
#include "harness/scenario/toml_document.h"

namespace resumecheck {

class Document {
 public:
  explicit Document(std::string file) : file_(std::move(file)) {}

  std::string place(const TomlNode& node) const;  // file:line:column
  std::string line(const TomlNode& node) const;   // file:line

  [[noreturn]] void refuse(const TomlNode& node, const std::string& what,
                           const std::string& cure = {}) const;
  [[noreturn]] void not_yet(const TomlNode& node, const std::string& what,
                            const std::string& instead = {}) const;

  // `later`: keys that are known, and refused because nothing can do them yet.
  void check_keys(const TomlNode& table, const std::string& name, const Names& known,
                  const Names& later = {}) const;
  const TomlNode& require(const TomlNode& table, std::string_view key, const char* cure) const;

  const TomlNode& as(const TomlNode& node, TomlNode::Kind kind, std::string_view key) const;
  std::string text(const TomlNode& node, std::string_view key) const;  // not empty, one line
  std::string choice(const TomlNode& node, std::string_view key, const Names& known,
                     const Names& later = {}) const;
  bool boolean(const TomlNode& node, std::string_view key) const;
  std::int64_t integer(const TomlNode& node, std::string_view key, std::int64_t least,
                       std::int64_t most) const;
  double number(const TomlNode& node, std::string_view key, double least, double below) const;
  Names texts(const TomlNode& node, std::string_view key) const;  // none twice
  Mesh mesh(const TomlNode& node, std::string_view key) const;

 private:
  std::string file_;
};

}  // namespace resumecheck
