// The detection matrix as one HTML file that needs nothing else: a row a defect, a column a
// scenario, so that a hole is seen as a gap and not read out of thousands of lines.
#pragma once

#include <string>

#include "harness/adapters/reference/detection_matrix.h"

namespace resumecheck {

// Variants of one scenario share a column: the best that any of them did. A cell's title says which
// case told, where it failed, its symptom and what the diagnosis called it.
std::string to_page(const DetectionMatrix& matrix);

}  // namespace resumecheck
