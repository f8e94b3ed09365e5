// All the cases of a run, in the order that keeps one environment's rank servers alive at a time
// and lets cases that save in the same way share one save run. Every result is handed on the moment
// it is known: what comes later, a crash included, cannot take it back.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/compare/case_result.h"
#include "harness/phases/launcher.h"
#include "harness/scenario/case.h"

namespace resumecheck {

struct CaseRunOptions {
  std::filesystem::path root;            // scenarios/, golden/, harness/adapters/python
  std::filesystem::path work;            // states and checkpoints while they are needed
  std::filesystem::path artifacts;       // what failed cases leave to be looked at
  std::filesystem::path native_program;  // resumecheck-mpi
  Launcher launcher;
  bool cold = false;           // every phase is a fresh start
  bool keep = false;           // nothing in `work` is removed
  double limit_seconds = 120;  // of a phase; five times that where a framework compiles its steps
  double start_limit = 300;
};

// Throws Interrupted with the results handed on so far, and whatever on_result throws. Anything
// else that goes wrong is an ERROR of its case; where that is the code of a scenario, which its
// author must mend, the Error(usage) that says so is thrown when all cases are done.
void run_cases(const std::vector<Case>& cases, const CaseRunOptions& options,
               const std::function<void(const CaseResult&)>& on_result);

}  // namespace resumecheck
