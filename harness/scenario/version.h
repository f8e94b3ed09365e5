// PEP 440 versions as a parsed value: a release comes after its own release candidates and dev
// releases, and a local label after the plain release; comparing them as text or as floats orders
// 0.9 after 0.17 and 2.15 before 2.8.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace resumecheck {

class Version {
 public:
  // Nothing for a text that is no PEP 440 version. Numbers may have any length.
  static std::optional<Version> parse(std::string_view text);

  std::strong_ordering operator<=>(const Version& other) const;
  bool operator==(const Version& other) const { return (*this <=> other) == 0; }

  bool has_local() const { return !local_.empty(); }
  Version without_local() const;

 private:
  struct Segment {  // of a local label: numbers come after words
    bool number = false;
    std::string text;
  };
  // A number of any length, without zeros ahead.
  std::string epoch_ = "0";
  std::vector<std::string> release_;  // without trailing zeros
  char pre_ = 0;                      // 'a', 'b', 'r' (rc), or 0
  std::string pre_number_;
  std::optional<std::string> post_;
  std::optional<std::string> dev_;
  std::vector<Segment> local_;
};

}  // namespace resumecheck
