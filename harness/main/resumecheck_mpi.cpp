// The program whose processes are ranks: one phase of a case (--phase), as `resumecheck run`
// launches it, or native cases inside one MPI job. Only rank 0 speaks; an error that every rank
// meets would otherwise be read as many.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>

#include "harness/main/mpi_cases.h"
#include "harness/main/mpi_phase.h"
#include "harness/main/rank_process.h"
#include "harness/state/error.h"

namespace resumecheck {
namespace {

struct Arguments {
  MpiCasesArguments cases;
  std::string phase;
  std::string ctest_script;
  std::string mpirun = "mpirun";
};

void describe(CLI::App& app, Arguments& arguments) {
  MpiCasesArguments& cases = arguments.cases;
  app.add_option("patterns", cases.patterns, "native cases, with * and ?; without one, all");
  app.add_option("--device", cases.device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--require", cases.required,
                 "cuda or nccl: a case that is skipped for want of it is an ERROR")
      ->check(CLI::IsMember({"cuda", "nccl"}))
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--out", cases.out, "folder for results")->capture_default_str();
  app.add_option("--defect", cases.defects,
                 "switch a mistake on, as NAME, NAME:RANK or NAME:RANK:WHEN, to see it caught")
      ->allow_extra_args(false);  // one each, or it would take the patterns
  app.add_option("--time-limit", cases.time_limit, "seconds a case")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  app.add_option("--after", cases.after, "begin behind this case of the selection");
  app.add_option("--phase", arguments.phase,
                 "run one phase, as this request file says, and nothing else");
  app.add_option("--write-ctest", arguments.ctest_script,
                 "write a script that adds each case to ctest, and nothing else");
  app.add_option("--mpirun", arguments.mpirun, "launcher named in that script");
  app.footer("GoogleTest's own flags work too: --gtest_list_tests, --gtest_filter, --gtest_output");
}

// All ranks meet the same mistake and rank 0 says it, but the launcher ends the job at the first
// rank that leaves: one that overtakes rank 0 would take the message with it.
bool speaks_or_waits() {
  if (launched_rank() == 0) return true;
  std::this_thread::sleep_for(std::chrono::seconds(1));
  return false;
}

int run(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);  // takes its own flags away
  Arguments arguments;
  arguments.cases.program = argv[0];
  CLI::App app{"Native cases inside one MPI job: mpirun -np 8 build/resumecheck-mpi 'adamw8bit/*'"};
  describe(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool wants_help = error.get_exit_code() == 0;
    if (speaks_or_waits()) app.exit(error);
    return wants_help ? 0 : 2;
  }
  if (!arguments.phase.empty()) return run_phase_of_request(arguments.phase, &argc, &argv);
  if (!arguments.ctest_script.empty()) {
    write_ctest_script(arguments.cases, arguments.mpirun, arguments.ctest_script);
    return 0;
  }
  if (GTEST_FLAG_GET(list_tests)) return list_cases(arguments.cases);
  return run_cases_in_job(arguments.cases, &argc, &argv);
}

}  // namespace
}  // namespace resumecheck

int main(int argc, char** argv) {
  using resumecheck::Error;
  resumecheck::die_with_launcher();
  try {
    return resumecheck::run(argc, argv);
  } catch (const Error& error) {
    if (resumecheck::speaks_or_waits()) {
      std::fprintf(stderr, "resumecheck-mpi: %s\n", error.what());
    }
    return error.kind() == Error::Kind::usage ? 2 : 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "resumecheck-mpi: internal error on rank %d: %s\n",
                 resumecheck::launched_rank(), error.what());
    return 3;
  }
}
