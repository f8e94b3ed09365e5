// Environments: pinned sets of framework packages that tools/environments makes in the cache, or a
// Python of the user's own (--env name=/path/to/python). The core program only finds them; versions
// are read from the environment's own record, never assumed from the pins.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace resumecheck {

struct Environment {
  std::string name;              // "torch-2.8"
  std::filesystem::path python;  // empty: not made yet
  std::map<std::string, std::string>
      packages;  // from the environment's record: {"torch": "2.8.0", "torchao": "0.12.0"}
  std::map<std::string, std::string> pins;  // of one not made yet: what it would hold
  bool named_by_user = false;               // --env: absent is ERROR, not SKIP
  // Where given: the scenarios (labelled quick) whose cases under this environment count as quick;
  // those of all others count as nightly.
  std::optional<std::vector<std::string>> quick;
  std::string missing_reason;  // why python is empty: "not made: tools/environments make torch-2.8"

  // By its record, else by its pins; true where nothing is known of it.
  bool may_have(const std::string& package) const;
};

// ${RESUMECHECK_CACHE:-${XDG_CACHE_HOME:-~/.cache}/resumecheck}
std::filesystem::path cache_folder();

// The folder with scenarios/, golden/ and tools/: $RESUMECHECK_ROOT, else found upward from the
// running program. Error(harness) where there is none.
std::filesystem::path project_root();

// `system`: the python3 on PATH, for adapters that need no package.
Environment system_environment();

// tools/environments.toml, each entry looked up in the cache. `own` entries are "name" or
// "name=/path/to/python". With any `own`, only those are returned. A path is asked for its packages
// once, by running it (limit 60 s).
std::vector<Environment> find_environments(const std::filesystem::path& root,
                                           const std::vector<std::string>& own);

}  // namespace resumecheck
