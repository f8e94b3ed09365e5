// `resumecheck detect`: the detection matrix, computed here and now with threads as ranks.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harness/adapters/reference/detection_matrix.h"
#include "harness/adapters/reference/detection_page.h"
#include "harness/main/commands.h"
#include "harness/scenario/case.h"
#include "harness/scenario/one_line.h"
#include "harness/state/error.h"
#include "harness/state/file.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;

struct DetectArguments {
  std::vector<std::string> patterns;
  bool json = false;
  std::string page;
};

class ScratchFolder {
 public:
  ScratchFolder()
      : folder_(fs::temp_directory_path() / ("resumecheck_detect_" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return folder_; }

 private:
  fs::path folder_;
};

// Defects are switches of the reference, so only its cases can be given one.
std::vector<Case> native_cases(const Selection& selection, const fs::path& root) {
  const std::vector<Case> all = expand(read_scenarios(root / "scenarios"), {});
  std::vector<Case> native;
  for (const Case& c : all) {
    if (c.native()) native.push_back(c);
  }
  for (const std::string& pattern : selection.patterns) {
    const Selection one = {{pattern}, {}, {}};
    const auto matched = [&](const Case& c) { return matches(c, one); };
    if (std::any_of(all.begin(), all.end(), matched) &&
        std::none_of(native.begin(), native.end(), matched)) {
      throw Error(
          Error::Kind::usage, one_line(pattern),
          "the reference is not among its adapters, and defects are switches of the reference",
          "name a scenario that lists it: see `resumecheck list --adapter reference`");
    }
  }
  return select(native, selection);
}

int detect(const DetectArguments& arguments) {
  const fs::path root = project_root();
  Selection selection;
  selection.patterns = arguments.patterns;
  const ScratchFolder scratch;
  DetectionMatrix matrix = detect(native_cases(selection, root), root, scratch.path());
  matrix.whole = arguments.patterns.empty();
  if (!arguments.page.empty()) write_file(arguments.page, to_page(matrix));
  std::fputs((arguments.json ? to_json(matrix) + "\n" : to_text(matrix)).c_str(), stdout);
  return matrix.problems().empty() ? 0 : 1;
}

}  // namespace

void add_detect_command(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<DetectArguments>();
  CLI::App* command = app.add_subcommand(
      "detect", "Defect by scenario: what is caught, and what the diagnosis calls it");
  command->add_option("patterns", arguments->patterns, "native scenarios, with * and ?");
  command->add_flag("--json", arguments->json, "print JSON");
  command->add_option("--page", arguments->page, "write it as an HTML page, too");
  command->callback([arguments, &exit_code] { exit_code = detect(*arguments); });
}

}  // namespace resumecheck
