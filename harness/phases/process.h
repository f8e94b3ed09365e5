// A program and everything it starts, none of which outlives the harness. A launcher puts its ranks
// in process groups and sessions of their own, and they outlive it when it is killed, so that a
// kill of the child, or of its group, leaves ranks behind. Each program therefore runs below a
// guardian: a subreaper that ends every descendant it has left when the program ends, when the
// harness says so, and when the harness itself is gone, even by SIGKILL.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace resumecheck {

// Keeps the first and the last bytes of what is written into it and counts the rest.
class BoundedText {
 public:
  explicit BoundedText(std::size_t each = 64 * 1024) : each_(each) {}
  void append(const char* bytes, std::size_t count);
  std::string text() const;  // with a line that says how much is missing
  std::size_t total() const { return total_; }

 private:
  std::size_t each_;
  std::size_t total_ = 0;
  std::string first_;
  std::string last_;  // up to twice each_, cut now and then
};

std::string last_lines(const std::string& text, int count);
std::string joined_lines(std::string text);  // line ends become blanks

// ": " and the last lines that tell why a launcher ended, as one; nothing where it was silent. That
// is what stands outside the frames of hyphens in which Open MPI says that some process failed, and
// only where nothing does, what stands in them.
std::string why_it_ended(const std::string& output);

struct ProcessEnd {
  int exit_status = 0;
  int signal = 0;  // 0: it exited
  bool well() const { return exit_status == 0 && signal == 0; }
};
std::string to_text(const ProcessEnd& end);  // "exited with status 3", "died: signal 9 (SIGKILL)"

class Process {
 public:
  // environment: added to the harness's own. Output (both streams) is kept as BoundedText; it is
  // always read, so a flood never blocks. Throws Error(harness) naming a program that cannot be
  // started.
  Process(std::vector<std::string> command, const std::map<std::string, std::string>& environment);
  ~Process();  // ends whatever is left
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // How the program ended; nothing while it runs. When it has ended, so have all its descendants.
  std::optional<ProcessEnd> ended();
  // Waits up to `seconds`; nothing if it still runs. Throws Interrupted.
  std::optional<ProcessEnd> wait(double seconds);
  void signal(int number);  // to the program itself
  // SIGTERM to the program, then, after the grace, SIGKILL to all of its descendants.
  void end(double grace_seconds);
  std::string output() const;
  std::size_t output_bytes() const;  // with those that were not kept
  std::vector<pid_t> descendants() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Of a process, from /proc: children, their children, and so on.
std::vector<pid_t> descendants_of(pid_t ancestor);
// The value of a variable in the environment that a process was started with; "" where unreadable.
std::string variable_of(pid_t process, const std::string& name);
// The harness adopts orphans, so that the sweep at the end finds those of a killed guardian too.
void adopt_orphans();
void end_all_descendants();

}  // namespace resumecheck
