// Texts come from frameworks that crash: broken UTF-8, colour codes, control characters. Nothing of
// that may break a report's file or a person's terminal, and nothing may vanish without a trace.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace resumecheck {

// Valid UTF-8 without control characters: broken bytes become U+FFFD, a control character its
// escape ("\x1b"). Line ends and tabs stay where keep_lines is set, and become blanks elsewhere.
std::string printable(std::string_view text, bool keep_lines = false);

std::size_t columns(std::string_view utf8);  // code points, a column each

// At most `most` columns, the last three being "..." where something was cut off.
std::string cut_to(const std::string& utf8, std::size_t most);

}  // namespace resumecheck
