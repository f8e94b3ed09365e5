// What a scenario asks of a model that computes and of its FP8 state, against what its adapters can
// do: most of it ties [model], [fp8] and [run] together.
#pragma once

#include <string>

#include "harness/scenario/document.h"
#include "harness/scenario/scenario.h"

namespace resumecheck {

void check_model(const Document& document, const TomlNode& root, const Scenario& scenario);

// Nothing where such a run can be divided so; otherwise why not, and what would do.
std::string why_no_mesh_of(const Settings& settings, const Mesh& mesh);

// Nothing where the settings keep the part ("fp8" or below); otherwise why there is none.
std::string why_no_fp8_state(const std::string& part, const Settings& settings);

}  // namespace resumecheck
