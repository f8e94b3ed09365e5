// Which parts of the state a run keeps beside parameters and moments, and what it needs to keep
// them.
#pragma once

#include <string>

#include "harness/scenario/document.h"
#include "harness/scenario/scenario.h"

namespace resumecheck {

// Nothing where the settings keep the part, or where it is no part of that kind.
std::string why_no_run_state(const std::string& part, const Settings& settings);

void check_run_state(const Document& document, const TomlNode& root, const Scenario& scenario);

}  // namespace resumecheck
