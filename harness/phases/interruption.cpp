#include "harness/phases/interruption.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <ctime>

namespace resumecheck {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
volatile std::sig_atomic_t requested = 0;  // a handler can reach nothing else
volatile std::sig_atomic_t exit_code_at_second = 3;
std::array<struct sigaction, kSignals.size()> before;

void on_signal(int) {
  if (requested != 0) _exit(exit_code_at_second);
  requested = 1;
}

}  // namespace

InterruptionHandlers::InterruptionHandlers(int second_exit_code) {
  requested = 0;
  exit_code_at_second = second_exit_code;
  struct sigaction action = {};
  action.sa_handler = on_signal;  // no SA_RESTART: sleeps and polls return
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before[i]);
}

InterruptionHandlers::~InterruptionHandlers() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before[i], nullptr);
  requested = 0;
}

bool interruption_requested() { return requested != 0; }

void throw_if_interrupted() {
  if (interruption_requested()) throw Interrupted{};
}

void interruptible_sleep(double seconds) {
  throw_if_interrupted();
  timespec time = {
      static_cast<time_t>(seconds),
      static_cast<long>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e9)};
  nanosleep(&time, nullptr);
  throw_if_interrupted();
}

}  // namespace resumecheck
