// Ctrl-C, SIGTERM and SIGHUP end a run in order: children first, then what was found out is written
// down. Whatever waits in this folder asks interruption_requested() and throws Interrupted. A
// second signal ends the program at once; the guardians (process.h) then end its children.
#pragma once

namespace resumecheck {

struct Interrupted {};

// Handlers for as long as it lives; the second signal exits with `second_exit_code`.
class InterruptionHandlers {
 public:
  explicit InterruptionHandlers(int second_exit_code);
  ~InterruptionHandlers();
  InterruptionHandlers(const InterruptionHandlers&) = delete;
  InterruptionHandlers& operator=(const InterruptionHandlers&) = delete;
};

bool interruption_requested();
void throw_if_interrupted();
// Sleeps, but not past a signal. Throws Interrupted.
void interruptible_sleep(double seconds);

}  // namespace resumecheck
