#include "harness/main/watchdog.h"

#include <csignal>
#include <ctime>

namespace resumecheck {
namespace {

constexpr long kPollNanoseconds = 50'000'000;

sigset_t watched_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  return signals;
}

}  // namespace

void Watchdog::take_signals() {
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

Watchdog::Watchdog(std::function<void(Reason)> on_end)
    : on_end_(std::move(on_end)), thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  thread_.join();
}

void Watchdog::expect_end_within(double seconds) {
  const std::scoped_lock lock(mutex_);
  deadline_ =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

void Watchdog::relax() {
  const std::scoped_lock lock(mutex_);
  deadline_.reset();
}

void Watchdog::watch() {
  const sigset_t signals = watched_signals();
  const timespec poll = {0, kPollNanoseconds};
  for (;;) {
    const bool told = sigtimedwait(&signals, nullptr, &poll) > 0;
    std::unique_lock lock(mutex_);
    if (stop_) return;
    const bool late = deadline_ && std::chrono::steady_clock::now() > *deadline_;
    if (!told && !late) continue;
    lock.unlock();
    on_end_(told ? Reason::told_to_end : Reason::time_limit);
    return;
  }
}

}  // namespace resumecheck
