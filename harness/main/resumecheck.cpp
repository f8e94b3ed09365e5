// The core program: it links the host build of the kernels, but neither MPI nor CUDA nor LibTorch,
// and starts in milliseconds. Every error ends here, as one line, with the exit code its kind
// stands for.
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "harness/main/commands.h"
#include "harness/report/report.h"
#include "harness/scenario/nearest_name.h"
#include "harness/scenario/one_line.h"
#include "harness/state/error.h"

namespace {

// A reader that has seen enough (`| head`) is no failure; a full disk under `list --json >file` is.
bool output_was_lost() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return false;
  pollfd reader = {STDOUT_FILENO, 0, 0};
  poll(&reader, 1, 0);
  return (reader.revents & POLLERR) == 0;
}

// CLI11 answers a misspelt command with "A subcommand is required".
void check_command(const CLI::App& app, const char* given) {
  if (given == nullptr || *given == '-') return;
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands({})) known.push_back(command->get_name());
  if (std::find(known.begin(), known.end(), given) != known.end()) return;
  using resumecheck::Error;
  throw Error(Error::Kind::usage, resumecheck::one_line(given), "there is no such command",
              resumecheck::did_you_mean(given, known));
}

}  // namespace

int main(int argc, char** argv) {
  using resumecheck::Error;
  CLI::App app{
      "Proves that a training run resumed from a checkpoint is the run that would have gone on, "
      "bit for bit."};
  app.require_subcommand(1);
  app.set_version_flag("--version", "resumecheck " + resumecheck::build_text());
  int exit_code = 0;
  resumecheck::add_list_command(app, exit_code);
  resumecheck::add_run_command(app, exit_code);
  resumecheck::add_golden_command(app, exit_code);
  resumecheck::add_detect_command(app, exit_code);
  resumecheck::add_table_command(app, exit_code);
  resumecheck::add_doctor_command(app, exit_code);
  try {
    check_command(app, argc > 1 ? argv[1] : nullptr);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? 0 : 2;  // 0: --help and --version, which are output too
  } catch (const Error& error) {
    std::fprintf(stderr, "resumecheck: %s\n", error.what());
    return error.kind() == Error::Kind::usage ? 2 : 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "resumecheck: internal error: %s\n", error.what());
    return 3;
  }
  if (exit_code == 0 && output_was_lost()) {
    std::fprintf(stderr, "resumecheck: the output could not be written\n");
    return 3;
  }
  return exit_code;
}
