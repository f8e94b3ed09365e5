// A scenario's TOML stands in a .toml file, or in a comment block at the top of a .py or .cpp. The
// block is cut out so that every line keeps its number: an error must point into the file that the
// author has open.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace resumecheck {

struct Carried {
  std::string carrier;      // "toml" | "py" | "cpp"
  std::string toml;         // with empty lines in place of what is not the block
  int columns_removed = 0;  // comment marks cut off the front of each line
};

// Throws Error(usage) where the ending is unknown, or where a .py or .cpp has no block, one that is
// not closed, or a second one. `shown`: the file's name in messages.
Carried cut_out_scenario(const std::filesystem::path& file, std::string_view text,
                         const std::string& shown);

}  // namespace resumecheck
