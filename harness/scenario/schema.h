// From a TOML document to a Scenario, checked key by key. What the schema names but no adapter can
// do yet is refused by name: a key that is read and ignored would make a scenario claim what it
// does not test.
#pragma once

#include <string>

#include "harness/scenario/scenario.h"
#include "harness/scenario/toml_document.h"

namespace resumecheck {

// `file`: as shown in messages; `name`: the scenario's. Fills everything but Scenario::file and
// carrier, and what [vary] chose: variants.h takes that apart before. Throws Error(usage) with
// file:line:column.
Scenario scenario_from(const TomlNode& document, const std::string& file, const std::string& name,
                       const std::string& carrier);

}  // namespace resumecheck
