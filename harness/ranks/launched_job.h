// For tests: a real job under mpirun, its exit code and everything it printed.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace resumecheck {

struct LaunchedJob {
  int exit_code = 0;
  std::string output;  // of every rank and of mpirun
};

inline LaunchedJob launch_job(int ranks, const std::string& command_line) {
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  const std::string command = std::string(RESUMECHECK_MPIRUN) +
                              " --oversubscribe --bind-to none -np " + std::to_string(ranks) + " " +
                              command_line + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {-1, "popen failed"};
  LaunchedJob job;
  char buffer[4096];
  while (const std::size_t n = fread(buffer, 1, sizeof buffer, pipe)) job.output.append(buffer, n);
  const int status = pclose(pipe);
  job.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return job;
}

inline int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

}  // namespace resumecheck
