#include "harness/state/logical_state.h"

#include <fmt/format.h>

#include <algorithm>

namespace resumecheck {
namespace {

struct ValueText {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& value) const { return value; }
};

}  // namespace

std::string to_text(const Value& value) { return std::visit(ValueText(), value); }

std::string to_text(const TensorKey& key) { return key.part + " of " + key.name; }

std::string value_part(std::string_view value_name) {
  return std::string(value_name.substr(0, value_name.find('/')));
}

bool selects(std::string_view selector, std::string_view part) {
  if (selector.empty() || !part.starts_with(selector)) return false;
  return part.size() == selector.size() || part[selector.size()] == '.';
}

bool selects(const std::vector<std::string>& selectors, std::string_view part) {
  return std::any_of(selectors.begin(), selectors.end(),
                     [&](const std::string& selector) { return selects(selector, part); });
}

}  // namespace resumecheck
