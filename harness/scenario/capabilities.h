// What a scenario asks for against what its adapters can do, known without starting one: a scenario
// that asks for more must fail when it is read, with file and line, and not after a launch on a
// cluster. Checked when all keys are read, as most limits tie two of them together.
#pragma once

#include "harness/scenario/document.h"
#include "harness/scenario/scenario.h"

namespace resumecheck {

// Also fills Scenario::parts where [compare] names none: what every adapter gives and the settings
// keep.
void check_capabilities(const Document& document, const TomlNode& root, Scenario& scenario);

// Stochastic rounding under a torchao profile draws from each rank's generator, which is then state
// (part "rng"); under the canonical profile it counts and keeps nothing.
bool draws_from_a_generator(const Settings& settings);

// Are steps of the run, before or behind the save, of the compiled profile?
bool has_compiled_steps(const Settings& settings);

}  // namespace resumecheck
