// [model] and [fp8]: what is trained. A model of a kind has the parameters of its layers, so that
// whoever shards, updates and compares parameters need not know that it also computes; one without
// is names and shapes, whose gradients are injected.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/scenario/document.h"
#include "harness/scenario/settings.h"

namespace resumecheck {

// A step has as many samples as a sum has chunks, so that a rank's samples are whole chunks.
constexpr std::int64_t logical_samples = 24;

void read_model(const Document& document, const TomlNode& node, Settings& settings);
void read_fp8(const Document& document, const TomlNode& node, Settings& settings);

// layers.0.norm.weight [width], .norm.bias [width], .fc1.weight [hidden, width], .fc1.bias
// [hidden], .fc2.weight [width, hidden], .fc2.bias [width], layers.1. ...; with experts
// layers.0.experts.0.fc1.weight ...; tied, there is no fc1.weight but that of layer 0.
std::vector<std::pair<std::string, Shape>> parameters_of(const Settings::Model& model);

}  // namespace resumecheck
