// Ends a job that would never end by itself: a case over its time limit, or a launcher that tells
// the ranks to go. It is a thread of its own, because the one that runs cases is what hangs.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace resumecheck {

class Watchdog {
 public:
  enum class Reason { time_limit, told_to_end };

  // Before any other thread exists: from here on SIGTERM, SIGINT and SIGHUP reach the watchdog
  // only.
  static void take_signals();

  // on_end runs on the watchdog's thread, once, and is expected to end the process.
  explicit Watchdog(std::function<void(Reason)> on_end);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void expect_end_within(double seconds);  // of what begins now
  void relax();                            // it has ended

 private:
  void watch();

  std::function<void(Reason)> on_end_;
  std::mutex mutex_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace resumecheck
