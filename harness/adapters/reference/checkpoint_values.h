// What a checkpoint must hold, by name and type: a value that is missing and one of another type
// are the same mistake, and both are the checkpoint's.
#pragma once

#include <string>
#include <variant>

#include "harness/state/error.h"
#include "harness/state/logical_state.h"

namespace resumecheck {

template <typename T>
T saved(const LogicalState& checkpoint, const std::string& name, const std::string& where) {
  const auto found = checkpoint.values.find(name);
  const T* value = found == checkpoint.values.end() ? nullptr : std::get_if<T>(&found->second);
  if (value != nullptr) return *value;
  throw Error(Error::Kind::subject, where, "holds no " + name + " as this run keeps it",
              "load a checkpoint that this version saved, of the same settings");
}

}  // namespace resumecheck
