#include "harness/main/rank_process.h"

#include <execinfo.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

namespace resumecheck {
namespace {

int number_in(const char* const (&names)[3], int otherwise) {
  for (const char* name : names) {
    if (const char* text = std::getenv(name)) return std::atoi(text);
  }
  return otherwise;
}

constexpr const char* kRankNames[3] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
constexpr const char* kSizeNames[3] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"};

char stack_file[4096];
pid_t main_thread = 0;

// Any thread may be given the signal; the stack that matters is the main thread's.
void write_stack(int signal) {
  const int error = errno;
  if (static_cast<pid_t>(syscall(SYS_gettid)) != main_thread) {
    syscall(SYS_tgkill, getpid(), main_thread, signal);
    errno = error;
    return;
  }
  std::array<void*, 64> frames;
  const int depth = backtrace(frames.data(), static_cast<int>(frames.size()));
  const int file = open(stack_file, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
  if (file >= 0) {
    backtrace_symbols_fd(frames.data(), depth, file);
    close(file);
  }
  errno = error;
}

}  // namespace

int launched_rank() { return number_in(kRankNames, 0); }
int launched_ranks() { return number_in(kSizeNames, 1); }

bool launched() {
  for (const char* name : kSizeNames) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

void die_with_launcher() {
  if (!launched()) return;
  const pid_t parent = getppid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent || parent == 1) _exit(3);
}

void write_stack_on_signal(const std::filesystem::path& file) {
  const std::string text = file.string();
  if (text.size() >= sizeof stack_file) return;
  std::memcpy(stack_file, text.c_str(), text.size() + 1);
  main_thread = static_cast<pid_t>(getpid());
  std::array<void*, 1> loads_the_unwinder;
  backtrace(loads_the_unwinder.data(), 1);
  struct sigaction action = {};
  action.sa_handler = write_stack;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
}

}  // namespace resumecheck
