#include "harness/scenario/carrier.h"

#include <algorithm>

#include "harness/state/error.h"

namespace resumecheck {
namespace {

std::string_view without_trailing_blanks(std::string_view line) {
  while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r')) {
    line.remove_suffix(1);
  }
  return line;
}

// "# text" -> "text"; "#" -> "". A line of another kind ends the block too early.
std::string_view without_mark(std::string_view line, std::string_view mark,
                              const std::string& where) {
  if (line.substr(0, mark.size()) != mark) {
    throw Error(Error::Kind::usage, where, "the scenario block is not closed before this line",
                "end it with a line '" + std::string(mark) + " ///'");
  }
  line.remove_prefix(mark.size());
  if (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  return line;
}

std::string cut_out_block(std::string_view text, std::string_view mark, const std::string& shown) {
  const std::string opening = std::string(mark) + " /// scenario";
  const std::string closing = std::string(mark) + " ///";
  enum class Place { before, inside, behind } place = Place::before;
  std::string toml;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    const std::string_view trimmed = without_trailing_blanks(line);
    const std::string where = shown + ":" + std::to_string(++number);
    begin = end + 1;
    if (trimmed == opening) {
      if (place != Place::before) {
        throw Error(Error::Kind::usage, where, "a second scenario block", "one file, one scenario");
      }
      place = Place::inside;
    } else if (place == Place::inside && trimmed == closing) {
      place = Place::behind;
    } else if (place == Place::inside) {
      toml += without_mark(line, mark, where);
    }
    toml += '\n';
  }
  if (place == Place::before) {
    throw Error(Error::Kind::usage, shown, "has no scenario block",
                "open it with a line '" + opening + "' and end it with '" + closing + "'");
  }
  if (place == Place::inside) {
    throw Error(Error::Kind::usage, shown + ":" + std::to_string(number),
                "the file ends inside the scenario block", "end it with a line '" + closing + "'");
  }
  return toml;
}

}  // namespace

Carried cut_out_scenario(const std::filesystem::path& file, std::string_view text,
                         const std::string& shown) {
  const std::string ending = file.extension();
  if (ending == ".toml") return {"toml", std::string(text), 0};
  if (ending == ".py") return {"py", cut_out_block(text, "#", shown), 2};
  if (ending == ".cpp") return {"cpp", cut_out_block(text, "//", shown), 3};
  throw Error(Error::Kind::usage, shown, "is no scenario file",
              "scenarios end in .toml, .py or .cpp");
}

}  // namespace resumecheck
