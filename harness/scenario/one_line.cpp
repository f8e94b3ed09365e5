#include "harness/scenario/one_line.h"

namespace resumecheck {

std::string one_line(std::string_view text, std::size_t most) {
  std::string line(text.substr(0, most));
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  return text.size() > most ? line + "..." : line;
}

}  // namespace resumecheck
