#include "harness/report/terminal_style.h"

namespace resumecheck {
namespace {

const char* escape_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "\x1b[32m";
    case Verdict::xfail:
    case Verdict::skip:
      return "\x1b[33m";
    case Verdict::error:
    case Verdict::timeout:
      return "\x1b[35m";
    case Verdict::fail:
    case Verdict::vacuous:
    case Verdict::xpass:
      return "\x1b[1;31m";
  }
  return "";
}

}  // namespace

std::string coloured(Verdict verdict, const std::string& text, bool colour) {
  return colour ? escape_of(verdict) + text + "\x1b[0m" : text;
}

std::string dimmed(const std::string& text, bool colour) {
  return colour ? "\x1b[2m" + text + "\x1b[0m" : text;
}

}  // namespace resumecheck
