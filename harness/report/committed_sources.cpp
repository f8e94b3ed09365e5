#include "harness/report/committed_sources.h"

#include <string>
#include <vector>

#include "harness/report/report.h"
#include "harness/scenario/program_output.h"
#include "harness/state/error.h"

namespace resumecheck {
namespace {

constexpr double kLimit = 30;  // seconds

class Checkout {
 public:
  explicit Checkout(const std::filesystem::path& root) : root_(root) {}

  // What git prints of the sources.
  std::string of_sources(std::vector<std::string> arguments) const {
    for (const char* source :
         {"--", "kernels", "harness", "cmake", "CMakeLists.txt", "CMakePresets.json"}) {
      arguments.emplace_back(source);
    }
    const ProgramOutput output = git(arguments);
    if (output.exit_status != 0) {
      throw Error(Error::Kind::harness, root_.string(), "git cannot say what has changed here",
                  output.errors.substr(0, output.errors.find('\n')));
    }
    return output.text;
  }
  bool knows(const std::vector<std::string>& arguments) const {
    return git(arguments).exit_status == 0;
  }

 private:
  ProgramOutput git(const std::vector<std::string>& arguments) const {
    std::vector<std::string> command = {"git", "-C", root_.string()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run_program(command, kLimit);
  }
  const std::filesystem::path& root_;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

void require_committed_sources(const std::filesystem::path& root) {
  const Checkout checkout(root);
  if (!checkout.knows({"rev-parse", "--is-inside-work-tree"})) return;
  const std::string built = built_commit();
  const bool own = checkout.knows({"cat-file", "-e", built + "^{commit}"});
  const std::string untracked =
      checkout.of_sources({"ls-files", "--others", "--exclude-standard", "--full-name"});
  if (!untracked.empty()) {
    throw Error(Error::Kind::usage, first_line(untracked), "is not committed",
                "commit the arithmetic first: a golden names the commit that made it");
  }
  const std::string uncommitted = checkout.of_sources({"diff", "--name-only", "HEAD"});
  if (!uncommitted.empty()) {
    throw Error(Error::Kind::usage, first_line(uncommitted), "has changes that are not committed",
                "commit the arithmetic first: a golden names the commit that made it");
  }
  if (!own) return;
  const std::string other = checkout.of_sources({"diff", "--name-only", built});
  if (!other.empty()) {
    throw Error(Error::Kind::usage, first_line(other),
                "is not what this program was built of (" + built.substr(0, 12) + ")",
                "build again, so that the golden is of the sources that are here");
  }
}

}  // namespace resumecheck
