// The program whose processes are ranks: one phase of a case (--phase), as `resumecheck run`
// launches it, or native cases inside one MPI job. Only rank 0 speaks; an error that every rank
// meets would otherwise be read as many.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "harness/main/mpi_phase.h"
#include "harness/main/rank_process.h"
#include "harness/state/error.h"

namespace resumecheck {
namespace {

int run(int argc, char** argv) {
  CLI::App app{"Native cases inside one MPI job: mpirun -np 8 build/resumecheck-mpi 'adamw8bit/*'"};
  std::string phase;
  app.add_option("--phase", phase, "run one phase, as this request file says, and nothing else");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (launched_rank() != 0) return error.get_exit_code() == 0 ? 0 : 2;
    return app.exit(error) == 0 ? 0 : 2;
  }
  return run_phase_of_request(phase, &argc, &argv);
}

}  // namespace
}  // namespace resumecheck

int main(int argc, char** argv) {
  using resumecheck::Error;
  resumecheck::die_with_launcher();
  const bool speaks = resumecheck::launched_rank() == 0;
  try {
    return resumecheck::run(argc, argv);
  } catch (const Error& error) {
    if (speaks) std::fprintf(stderr, "resumecheck-mpi: %s\n", error.what());
    return error.kind() == Error::Kind::usage ? 2 : 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "resumecheck-mpi: internal error on rank %d: %s\n",
                 resumecheck::launched_rank(), error.what());
    return 3;
  }
}
