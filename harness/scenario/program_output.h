// What a program says about itself (a Python's packages, mpirun's version), within a time limit: a
// tool that hangs must not hang the harness, and one that is absent is an answer, not an error.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace resumecheck {

struct ProgramOutput {
  bool started = false;
  bool timed_out = false;  // it and its process group were killed
  int exit_status = -1;    // -1: ended by a signal
  std::string text;        // standard output, the first MiB
  std::string errors;      // standard error, the first MiB
};

// argv[0] is a path or is looked up on PATH. Standard input is empty. limit in seconds.
ProgramOutput run_program(const std::vector<std::string>& argv, double limit);

// The file on PATH that `name` would start.
std::optional<std::filesystem::path> find_on_path(const std::string& name);

}  // namespace resumecheck
