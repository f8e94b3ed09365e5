// What a pattern with * and ? fits: names of cases on a command line, names of parameters in a
// scenario.
#pragma once

#include <string_view>

namespace resumecheck {

// * and ? only; brackets are ordinary characters. Iterative, so that no pattern is exponential.
bool glob_matches(std::string_view pattern, std::string_view text);

}  // namespace resumecheck
