// XXH3-128, the one digest of the project, written as 32 lower-case hex digits (high half first).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/state/logical_state.h"

namespace resumecheck {

std::string digest(std::span<const std::byte> bytes);
std::string digest(std::string_view text);
std::string digest(const LogicalTensor& tensor);  // over dtype name, shape text and bytes
// Over every selected tensor in key order (name, part, tensor digest); values are included when
// selectors is empty.
std::string digest(const LogicalState& state, const std::vector<std::string>& selectors = {});

}  // namespace resumecheck
