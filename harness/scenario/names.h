// Lists of names, as scenario files, command lines and declarations hold them: asked whether they
// hold one, and shown in messages. One place, so that no file compares names in a way of its own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace resumecheck {

using Names = std::vector<std::string>;

bool contains(const Names& names, std::string_view name);
void add_unique(Names& names, const std::string& name);  // at the end, unless it is there
std::string joined(const Names& names);                  // "dp, rep"

}  // namespace resumecheck
