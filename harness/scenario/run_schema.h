// How a run trains: [optimizer] with its groups, schedule and clipping, [loss_scale], [run], and
// what of [model] is frozen when. A pattern that fits no parameter would leave a scenario testing
// nothing, so it is refused where it stands.
#pragma once

#include "harness/scenario/document.h"
#include "harness/scenario/settings.h"

namespace resumecheck {

// After the model, whose parameters the groups name.
void read_optimizer(const Document& document, const TomlNode& node, Settings& settings);
void read_loss_scale(const Document& document, const TomlNode& node, Settings& settings);
void read_run(const Document& document, const TomlNode& node, Settings& settings);

// frozen, frozen_steps and dropout of a [model] with a kind, once its parameters are known.
void read_frozen(const Document& document, const TomlNode& model, Settings& settings);
double read_dropout(const Document& document, const TomlNode& node);

}  // namespace resumecheck
