// The core program: it links the host build of the kernels, but neither MPI nor CUDA nor LibTorch,
// and starts in milliseconds. Every error ends here, as one line, with the exit code its kind
// stands for.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "harness/main/commands.h"
#include "harness/state/error.h"

int main(int argc, char** argv) {
  using resumecheck::Error;
  CLI::App app{
      "Proves that a training run resumed from a checkpoint is the run that would have gone on, "
      "bit for bit."};
  app.require_subcommand(1);
  int exit_code = 0;
  resumecheck::add_list_command(app, exit_code);
  resumecheck::add_run_command(app, exit_code);
  resumecheck::add_golden_command(app, exit_code);
  resumecheck::add_detect_command(app, exit_code);
  resumecheck::add_doctor_command(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const Error& error) {
    std::fprintf(stderr, "resumecheck: %s\n", error.what());
    return error.kind() == Error::Kind::usage ? 2 : 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "resumecheck: internal error: %s\n", error.what());
    return 3;
  }
  return exit_code;
}
