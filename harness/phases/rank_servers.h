// The Python ranks of one environment and adapter: a server process a rank, all in one launch,
// which import the framework once and fork for every phase. They are asked through files in a
// scratch folder. A phase that crashes, hangs or floods is the phase's outcome; a server that dies
// or no longer answers is the harness's trouble, and the next phase gets new servers.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harness/phases/launcher.h"
#include "harness/phases/phase_outcome.h"
#include "harness/phases/phase_request.h"

namespace resumecheck {

class Process;

struct RankServerSetup {
  Launcher launcher;
  std::vector<std::string> program;  // python, rank_server.py
  std::string adapter;
  int world = 1;  // of the largest mesh that will be asked for
  std::filesystem::path scratch;
  double start_limit = 300;  // seconds until all have imported the framework
  double grace = 3;          // seconds the others have once a rank has failed
  double answer_limit = 15;  // seconds past a phase's limit until the servers count as dead
};

class RankServers {
 public:
  explicit RankServers(RankServerSetup setup);
  ~RankServers();  // stops them
  RankServers(const RankServers&) = delete;
  RankServers& operator=(const RankServers&) = delete;

  // Starts the servers where none are running. Throws Interrupted.
  PhaseOutcome run(const PhaseRequest& request);
  // Asks them to end, ends them by force if they do not, and returns when they are gone.
  void stop();

 private:
  std::string start();  // a problem in words, or ""
  std::string wait_for_ready();
  std::string await(const PhaseRequest& request);
  RankEnd rank_end(const PhaseRequest& request, int rank,
                   std::filesystem::file_time_type began) const;
  std::filesystem::path done_file(int rank) const;
  std::string died(const std::string& when);

  RankServerSetup setup_;
  std::unique_ptr<Process> process_;
  std::filesystem::path scratch_;  // of the servers now running
  int generation_ = 0;
  int sequence_ = 0;
  std::string cannot_start_;  // an import that failed once will fail again
  std::map<std::string, std::string> versions_;
  std::vector<std::string> stand_ins_;
};

}  // namespace resumecheck
