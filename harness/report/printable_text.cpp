#include "harness/report/printable_text.h"

#include <cstdint>

namespace resumecheck {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

// Length of the well-formed UTF-8 sequence at the front, 0 where there is none (RFC 3629: no
// overlong forms, no surrogates, nothing above U+10FFFF).
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{0};
  };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!continues(1) || !continues(2)) return 0;
    if (first == 0xE0 && byte(1) < 0xA0) return 0;
    if (first == 0xED && byte(1) > 0x9F) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    if (first == 0xF0 && byte(1) < 0x90) return 0;
    if (first == 0xF4 && byte(1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

// U+0080..U+009F (some terminals obey them), U+FFFE and U+FFFF (XML refuses them).
bool is_unwanted(std::string_view sequence) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(sequence[i]); };
  if (sequence.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
  return sequence.size() == 3 && byte(0) == 0xEF && byte(1) == 0xBF && byte(2) >= 0xBE;
}

std::string escape(std::uint8_t control) {
  constexpr char digits[] = "0123456789abcdef";
  return {'\\', 'x', digits[control >> 4], digits[control & 15]};
}

}  // namespace

std::string printable(std::string_view text, bool keep_lines) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const std::string_view sequence = text.substr(0, length == 0 ? 1 : length);
    const auto first = static_cast<std::uint8_t>(sequence[0]);
    text.remove_prefix(sequence.size());
    if (length == 0 || is_unwanted(sequence)) {
      clean += replacement;
    } else if (first == '\n' || first == '\t') {
      clean += keep_lines ? static_cast<char>(first) : ' ';
    } else if (first < 0x20 || first == 0x7f) {
      clean += escape(first);
    } else {
      clean += sequence;
    }
  }
  return clean;
}

std::size_t columns(std::string_view utf8) {
  std::size_t count = 0;
  for (const char c : utf8) {
    if ((static_cast<std::uint8_t>(c) & 0xC0) != 0x80) ++count;
  }
  return count;
}

std::string cut_to(const std::string& utf8, std::size_t most) {
  if (columns(utf8) <= most) return utf8;
  const std::size_t kept = most < 3 ? 0 : most - 3;
  std::size_t count = 0;
  std::size_t end = 0;
  while (end < utf8.size()) {
    const bool begins = (static_cast<std::uint8_t>(utf8[end]) & 0xC0) != 0x80;
    if (begins && count++ == kept) break;
    ++end;
  }
  return utf8.substr(0, end) + std::string("...").substr(0, most);
}

}  // namespace resumecheck
