// What a file or a command line holds is quoted in errors, and an error is one printable line
// whatever that was: control characters and what is no ASCII become '?', and long texts are cut.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace resumecheck {

std::string one_line(std::string_view text, std::size_t most = 400);

}  // namespace resumecheck
