#include "harness/phases/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <sstream>
#include <thread>

#include "harness/phases/interruption.h"
#include "harness/state/error.h"

extern char** environ;

namespace resumecheck {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void sleep_milliseconds(long count) {
  const timespec time = {count / 1000, (count % 1000) * 1000000};
  nanosleep(&time, nullptr);
}

// ---- /proc ---------------------------------------------------------------------------------

// The parent's id, or -1 for one that is gone or a zombie (which only its parent can end).
pid_t parent_of(pid_t process) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/stat", process);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  char text[512];
  const ssize_t count = read(file, text, sizeof text - 1);
  close(file);
  if (count <= 0) return -1;
  text[count] = 0;
  const char* after_name = std::strrchr(text, ')');  // the name may hold spaces and brackets
  char state = 0;
  int parent = -1;
  if (after_name == nullptr || std::sscanf(after_name + 1, " %c %d", &state, &parent) != 2) {
    return -1;
  }
  return state == 'Z' || state == 'X' ? -1 : parent;
}

void kill_all(const std::vector<pid_t>& processes) {
  for (const pid_t process : processes) kill(process, SIGKILL);
}

// Until none is left or the time is up: one that is just being forked is met in the next round.
bool end_descendants(pid_t ancestor, double limit_seconds) {
  const Clock::time_point begin = Clock::now();
  while (true) {
    const std::vector<pid_t> left = descendants_of(ancestor);
    if (left.empty()) return true;
    kill_all(left);
    sleep_milliseconds(2);
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (seconds_since(begin) > limit_seconds) return false;
  }
}

// ---- the guardian --------------------------------------------------------------------------

constexpr int kControl = 3, kStatus = 4, kOutput = 5, kFirstOther = 6;

struct StatusMessage {
  enum class Kind : int { cannot_start, started, ended } kind;
  int number;  // errno, process id, or the status as waitpid gives it
};

void tell(StatusMessage::Kind kind, int number) {
  const StatusMessage message = {kind, number};
  if (write(kStatus, &message, sizeof message) < 0) return;  // the harness is gone: seen elsewhere
}

void close_from(int first) {
  if (close_range(static_cast<unsigned>(first), ~0U, 0) == 0) return;
  for (int file = first; file < 4096; ++file) close(file);
}

// Moves the three files to fixed numbers, by way of numbers that none of them has.
void arrange_files(int control, int status, int output) {
  const int high_control = fcntl(control, F_DUPFD, 64);
  const int high_status = fcntl(status, F_DUPFD, 64);
  const int high_output = fcntl(output, F_DUPFD, 64);
  dup2(high_control, kControl);
  dup2(high_status, kStatus);
  dup2(high_output, kOutput);
  close_from(kFirstOther);
  // Whoever reads the harness's own output must not have to wait for a guardian.
  const int nowhere = open("/dev/null", O_RDWR);
  for (const int file : {0, 1, 2}) dup2(nowhere, file);
  close(nowhere);
}

void reset_signals() {
  for (int number = 1; number < 32; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void become_program(char* const* command, char* const* environment, int failure) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);
  reset_signals();
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, 0);
  dup2(kOutput, 1);
  dup2(kOutput, 2);
  fcntl(failure, F_SETFD, FD_CLOEXEC);
  for (int file = 3; file < failure; ++file) close(file);
  environ = const_cast<char**>(environment);
  execvp(command[0], command);
  const int reason = errno;
  if (write(failure, &reason, sizeof reason) < 0) _exit(126);
  _exit(127);
}

enum class Order { none, end_all, harness_gone };

// Waits a moment for letters, each of which is a signal for the program, or 0: end all.
Order obey(pid_t program) {
  pollfd wanted = {kControl, POLLIN, 0};
  if (poll(&wanted, 1, 10) <= 0) return Order::none;
  char letters[16];
  const ssize_t count = read(kControl, letters, sizeof letters);
  if (count < 0) return errno == EINTR || errno == EAGAIN ? Order::none : Order::harness_gone;
  if (count == 0) return Order::harness_gone;
  for (ssize_t i = 0; i < count; ++i) {
    const int number = static_cast<unsigned char>(letters[i]);
    if (number == 0) return Order::end_all;
    kill(program, number);
  }
  return Order::none;
}

// Takes the status of every child that has ended; whether the program was among them.
bool reap(pid_t program, int& status) {
  int its_status = 0;
  bool ended = false;
  for (pid_t gone; (gone = waitpid(-1, &its_status, WNOHANG)) > 0;) {
    if (gone != program) continue;
    status = its_status;
    ended = true;
  }
  return ended;
}

[[noreturn]] void guard(char* const* command, char* const* environment) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  setpgid(0, 0);  // a Ctrl-C at the terminal is for the harness alone
  reset_signals();
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR1, SIGTTOU}) {
    ::signal(number, SIG_IGN);
  }
  int failure[2];
  if (pipe(failure) != 0) _exit(1);
  const pid_t program = fork();
  if (program == 0) become_program(command, environment, failure[1]);
  close(failure[1]);
  close(kOutput);
  int reason = program < 0 ? errno : 0;
  if (program < 0 || read(failure[0], &reason, sizeof reason) == sizeof reason) {
    tell(StatusMessage::Kind::cannot_start, reason);
    _exit(1);
  }
  close(failure[0]);
  tell(StatusMessage::Kind::started, program);
  int status = SIGKILL;  // as waitpid would give it
  Order order = Order::none;
  bool running = true;
  while ((running = !reap(program, status)) && order == Order::none) order = obey(program);
  // A launcher that is asked to can also end ranks on other machines, which nobody else can.
  if (running && order == Order::harness_gone) {
    kill(program, SIGTERM);
    for (int i = 0; i < 200 && !reap(program, status); ++i) sleep_milliseconds(10);
  }
  end_descendants(getpid(), 10);
  tell(StatusMessage::Kind::ended, status);
  _exit(0);
}

// Strings for execve, made before the fork: nothing is allocated after it.
class Strings {
 public:
  explicit Strings(std::vector<std::string> held) : held_(std::move(held)) {
    for (std::string& text : held_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }
  char* const* get() { return pointers_.data(); }

 private:
  std::vector<std::string> held_;
  std::vector<char*> pointers_;
};

std::vector<std::string> environment_with(const std::map<std::string, std::string>& added) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (added.find(text.substr(0, text.find('='))) == added.end()) all.push_back(text);
  }
  for (const auto& [name, value] : added) all.push_back(name + "=" + value);
  return all;
}

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      throw Error(Error::Kind::harness, "pipe", std::strerror(errno));
    }
    read_end = ends[0];
    write_end = ends[1];
  }
};

}  // namespace

void BoundedText::append(const char* bytes, std::size_t count) {
  total_ += count;
  const std::size_t into_first = std::min(count, each_ - first_.size());
  first_.append(bytes, into_first);
  last_.append(bytes + into_first, count - into_first);
  if (last_.size() > 2 * each_) last_.erase(0, last_.size() - each_);
}

std::string BoundedText::text() const {
  const std::string end = last_.size() > each_ ? last_.substr(last_.size() - each_) : last_;
  const std::size_t missing = total_ - first_.size() - end.size();
  if (missing == 0) return first_ + end;
  return fmt::format("{}\n[... {} bytes of output left out ...]\n{}", first_, missing, end);
}

std::string last_lines(const std::string& text, int count) {
  std::size_t end = text.size();
  while (end > 0 && text[end - 1] == '\n') --end;
  std::size_t begin = end;
  while (begin > 0 && (text[begin - 1] != '\n' || --count > 0)) --begin;
  return text.substr(begin, end - begin);
}

std::string why_it_ended(const std::string& output) {
  std::string outside;
  std::string framed;
  bool in_frame = false;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const bool rule = line.size() > 20 && line.find_first_not_of('-') == std::string::npos;
    if (rule) {
      in_frame = !in_frame;
    } else {
      (in_frame ? framed : outside) += line + "\n";
    }
  }
  const std::string why = joined_lines(last_lines(outside.empty() ? framed : outside, 8));
  return why.empty() ? "" : ": " + why;
}

std::string joined_lines(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string to_text(const ProcessEnd& end) {
  if (end.signal == 0) return fmt::format("exited with status {}", end.exit_status);
  const char* name = sigabbrev_np(end.signal);
  return fmt::format("died: signal {} (SIG{})", end.signal, name == nullptr ? "?" : name);
}

std::vector<pid_t> descendants_of(pid_t ancestor) {
  std::vector<std::pair<pid_t, pid_t>> all;  // process, parent
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return {};
  while (const dirent* entry = readdir(folder)) {
    const pid_t process = std::atoi(entry->d_name);
    if (process <= 0) continue;
    if (const pid_t parent = parent_of(process); parent > 0) all.emplace_back(process, parent);
  }
  closedir(folder);
  std::vector<pid_t> found;
  std::vector<pid_t> ancestors = {ancestor};
  while (!ancestors.empty()) {
    const pid_t parent = ancestors.back();
    ancestors.pop_back();
    for (const auto& [process, its_parent] : all) {
      if (its_parent != parent) continue;
      found.push_back(process);
      ancestors.push_back(process);
    }
  }
  return found;
}

std::string variable_of(pid_t process, const std::string& name) {
  std::ifstream file(fmt::format("/proc/{}/environ", process), std::ios::binary);
  std::string entry;
  while (std::getline(file, entry, '\0')) {
    if (entry.rfind(name + "=", 0) == 0) return entry.substr(name.size() + 1);
  }
  return "";
}

void adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

void end_all_descendants() { end_descendants(getpid(), 10); }

struct Process::Parts {
  pid_t guardian = -1;
  pid_t program = -1;
  int control = -1, status = -1, output = -1;
  std::optional<ProcessEnd> end;
  std::thread reader;
  std::atomic<bool> no_more_output = false;
  mutable std::mutex mutex;  // guards text
  BoundedText text;

  void start(const std::vector<std::string>& command,
             const std::map<std::string, std::string>& environment);
  void wait_for_start(const std::string& program_name);
  std::optional<StatusMessage> next_message(int milliseconds);
  void read_output();
  void finish();
};

// Returns nothing when the time is up. A guardian that is gone without a word was itself killed.
std::optional<StatusMessage> Process::Parts::next_message(int milliseconds) {
  pollfd wanted = {status, POLLIN, 0};
  if (poll(&wanted, 1, milliseconds) <= 0) return std::nullopt;
  StatusMessage message;
  const ssize_t count = read(status, &message, sizeof message);
  if (count == sizeof message) return message;
  if (count < 0 && errno == EINTR) return std::nullopt;
  return StatusMessage{StatusMessage::Kind::ended, SIGKILL};
}

void Process::Parts::read_output() {
  std::vector<char> buffer(64 * 1024);
  while (true) {
    pollfd wanted = {output, POLLIN, 0};
    const int ready = poll(&wanted, 1, 50);
    if (ready <= 0) {
      if (no_more_output) return;
      continue;
    }
    const ssize_t count = read(output, buffer.data(), buffer.size());
    if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) return;
    if (count <= 0) continue;
    const std::lock_guard lock(mutex);
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

void Process::Parts::start(const std::vector<std::string>& command,
                           const std::map<std::string, std::string>& environment) {
  Strings arguments(command);
  Strings variables(environment_with(environment));
  const Pipe control_pipe, status_pipe, output_pipe;
  guardian = fork();
  if (guardian == 0) {
    arrange_files(control_pipe.read_end, status_pipe.write_end, output_pipe.write_end);
    guard(arguments.get(), variables.get());
  }
  close(control_pipe.read_end);
  close(status_pipe.write_end);
  close(output_pipe.write_end);
  control = control_pipe.write_end;
  status = status_pipe.read_end;
  output = output_pipe.read_end;
  if (guardian < 0) throw Error(Error::Kind::harness, command[0], std::strerror(errno));
}

void Process::Parts::wait_for_start(const std::string& program_name) {
  std::optional<StatusMessage> message;
  while (!message) message = next_message(1000);
  if (message->kind == StatusMessage::Kind::started) {
    program = message->number;
    return;
  }
  const int reason = message->kind == StatusMessage::Kind::cannot_start ? message->number : ECHILD;
  finish();
  throw Error(Error::Kind::harness, program_name,
              fmt::format("cannot be started: {}", std::strerror(reason)),
              reason == ENOENT ? "install it, or name another one" : "");
}

// Everything below the guardian is gone, or will never be.
void Process::Parts::finish() {
  no_more_output = true;
  if (reader.joinable()) reader.join();
  if (guardian > 0) {
    if (control >= 0) close(control);
    control = -1;
    const Clock::time_point begin = Clock::now();
    while (waitpid(guardian, nullptr, WNOHANG) == 0) {
      if (seconds_since(begin) > 15) {
        kill_all(descendants_of(guardian));
        kill(guardian, SIGKILL);
      }
      sleep_milliseconds(1);
    }
    guardian = -1;
  }
  for (int* file : {&status, &output}) {
    if (*file >= 0) close(*file);
    *file = -1;
  }
}

Process::Process(std::vector<std::string> command,
                 const std::map<std::string, std::string>& environment)
    : parts_(std::make_unique<Parts>()) {
  if (command.empty() || command[0].empty()) {
    throw Error(Error::Kind::usage, "command", "is empty");
  }
  parts_->start(command, environment);
  parts_->wait_for_start(command[0]);
  parts_->reader = std::thread([parts = parts_.get()] { parts->read_output(); });
}

Process::~Process() {
  if (!parts_->end) end(2);  // so that a launcher can tidy up
}

std::optional<ProcessEnd> Process::ended() {
  if (parts_->end) return parts_->end;
  const auto message = parts_->next_message(0);
  if (!message || message->kind != StatusMessage::Kind::ended) return std::nullopt;
  ProcessEnd end;
  if (WIFSIGNALED(message->number)) {
    end.signal = WTERMSIG(message->number);
  } else {
    end.exit_status = WEXITSTATUS(message->number);
  }
  parts_->end = end;
  parts_->finish();
  return end;
}

std::optional<ProcessEnd> Process::wait(double seconds) {
  const Clock::time_point begin = Clock::now();
  while (!ended()) {
    throw_if_interrupted();
    const double left = seconds - seconds_since(begin);
    if (left <= 0) return std::nullopt;
    pollfd wanted = {parts_->status, POLLIN, 0};
    poll(&wanted, 1, static_cast<int>(std::clamp(left * 1000, 1.0, 200.0)));
  }
  return parts_->end;
}

void Process::signal(int number) {
  if (ended()) return;
  const char letter = static_cast<char>(number);
  if (write(parts_->control, &letter, 1) < 0)
    return;  // the guardian has just ended: seen by ended()
}

void Process::end(double grace_seconds) {
  const Clock::time_point begin = Clock::now();
  if (grace_seconds > 0) signal(SIGTERM);
  while (!ended() && seconds_since(begin) < grace_seconds) sleep_milliseconds(5);
  signal(0);  // the guardian ends all
  const Clock::time_point told = Clock::now();
  while (!ended() && seconds_since(told) < 12) sleep_milliseconds(2);
  if (parts_->end) return;
  parts_->end = ProcessEnd{0, SIGKILL};
  parts_->finish();
}

std::string Process::output() const {
  const std::lock_guard lock(parts_->mutex);
  return parts_->text.text();
}

std::size_t Process::output_bytes() const {
  const std::lock_guard lock(parts_->mutex);
  return parts_->text.total();
}

std::vector<pid_t> Process::descendants() const {
  return parts_->guardian > 0 ? descendants_of(parts_->guardian) : std::vector<pid_t>{};
}

}  // namespace resumecheck
