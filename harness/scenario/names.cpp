#include "harness/scenario/names.h"

#include <algorithm>

namespace resumecheck {

bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void add_unique(Names& names, const std::string& name) {
  if (!contains(names, name)) names.push_back(name);
}

std::string joined(const Names& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace resumecheck
