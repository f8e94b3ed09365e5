// Colour for terminals, in one place: a verdict is told by its word everywhere, and the colour only
// repeats it.
#pragma once

#include <string>

#include "harness/compare/case_result.h"

namespace resumecheck {

std::string coloured(Verdict verdict, const std::string& text, bool colour);
std::string dimmed(const std::string& text, bool colour);

}  // namespace resumecheck
