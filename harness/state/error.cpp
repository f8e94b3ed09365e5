#include "harness/state/error.h"

#include <utility>

namespace resumecheck {
namespace {

std::string one_line(const std::string& where, const std::string& what, const std::string& cure) {
  std::string line = where.empty() ? what : where + ": " + what;
  if (!cure.empty()) line += "; " + cure;
  return line;
}

}  // namespace

Error::Error(Kind kind, std::string where, std::string what, std::string cure)
    : std::runtime_error(one_line(where, what, cure)),
      kind_(kind),
      where_(std::move(where)),
      what_(std::move(what)),
      cure_(std::move(cure)) {}

}  // namespace resumecheck
