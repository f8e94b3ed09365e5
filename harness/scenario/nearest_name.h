// A misspelt name is the commonest mistake in a scenario file and on a command line; the message
// then offers the name that was meant, and offers nothing where no known name is near.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace resumecheck {

// The candidate with the fewest edits, if those are at most a third of its length (at least 2).
std::optional<std::string> nearest_name(std::string_view text,
                                        const std::vector<std::string>& candidates);

// "did you mean 'dp'?", or "known: dp, rep" where nothing is near; for an Error's cure.
std::string did_you_mean(std::string_view text, const std::vector<std::string>& candidates);

}  // namespace resumecheck
