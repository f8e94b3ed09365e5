// Native cases inside one MPI job, each a GoogleTest. All processes make the same decisions from
// the same broadcast results, since ranks that disagree about which case comes next would wait for
// each other for ever.
#pragma once

#include <string>
#include <vector>

#include "harness/scenario/case.h"

namespace resumecheck {

struct MpiCasesArguments {
  std::vector<std::string> patterns;
  std::vector<std::string> defects;   // --defect NAME[:RANK[:WHEN]]
  std::vector<std::string> required;  // --require: a skip for want of it is an ERROR
  std::string device = "cpu";
  std::string out = "out";
  std::string after;        // begin behind this case
  double time_limit = 120;  // seconds a case
  std::string program = "resumecheck-mpi";
};

// The native cases that the arguments choose, in their order. Error(usage) where there are none.
std::vector<Case> chosen_cases(const MpiCasesArguments& arguments);

// Returns the exit code, on every rank the same. GoogleTest has taken its own flags already.
int run_cases_in_job(const MpiCasesArguments& arguments, int* argc, char*** argv);

// --gtest_list_tests: needs no job.
int list_cases(const MpiCasesArguments& arguments);

// A script for ctest that adds a test for each native case.
void write_ctest_script(const MpiCasesArguments& arguments, const std::string& mpirun,
                        const std::string& file);

}  // namespace resumecheck
