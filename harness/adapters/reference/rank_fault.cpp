#include "harness/adapters/reference/rank_fault.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace resumecheck {
namespace {

constexpr int kFloodMegabytes = 200;

[[noreturn]] void hang() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

void flood() {
  const std::string line(1023, 'x');
  for (int i = 0; i < kFloodMegabytes * 1024; ++i) std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace

void suffer_faults(const std::vector<FaultSpec>& faults, int rank, const std::string& place) {
  for (const FaultSpec& fault : faults) {
    if (fault.rank != rank || fault.at != place) continue;
    if (fault.name == "kill_rank") raise(SIGKILL);
    if (fault.name == "hang_rank") hang();
    if (fault.name == "exit_early") _exit(0);
    if (fault.name == "flood_output") flood();
    if (fault.name == "raise_exception") {
      throw std::runtime_error("raised on purpose by rank " + std::to_string(rank) + " in " +
                               place);
    }
  }
}

}  // namespace resumecheck
