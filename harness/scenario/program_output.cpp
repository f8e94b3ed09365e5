#include "harness/scenario/program_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string_view>

namespace resumecheck {
namespace {

constexpr std::size_t most_kept = 1 << 20;

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  bool open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    read_end = ends[0];
    write_end = ends[1];
    return true;
  }
  void close_read() {
    if (read_end >= 0) close(read_end);
    read_end = -1;
  }
  void close_write() {
    if (write_end >= 0) close(write_end);
    write_end = -1;
  }
  ~Pipe() {
    close_read();
    close_write();
  }
};

[[noreturn]] void become(char* const* arguments, int output, int errors, int failure) {
  setpgid(0, 0);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  execvp(arguments[0], arguments);
  const char failed = 1;
  if (write(failure, &failed, 1) != 1) _exit(126);
  _exit(127);
}

// False once the other end is closed.
bool take_available(int descriptor, std::string& text) {
  char buffer[65536];
  const ssize_t count = read(descriptor, buffer, sizeof buffer);
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  const std::size_t room = most_kept - std::min(most_kept, text.size());
  text.append(buffer, std::min(room, static_cast<std::size_t>(count)));
  return count > 0;
}

bool read_until(std::chrono::steady_clock::time_point deadline, Pipe& output, Pipe& errors,
                ProgramOutput& result) {
  while (output.read_end >= 0 || errors.read_end >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd watched[2] = {{output.read_end, POLLIN, 0}, {errors.read_end, POLLIN, 0}};
    if (poll(watched, 2, static_cast<int>(left.count())) < 0 && errno != EINTR) return false;
    if (watched[0].revents != 0 && !take_available(output.read_end, result.text)) {
      output.close_read();
    }
    if (watched[1].revents != 0 && !take_available(errors.read_end, result.errors)) {
      errors.close_read();
    }
  }
  return true;
}

}  // namespace

ProgramOutput run_program(const std::vector<std::string>& argv, double limit) {
  ProgramOutput result;
  Pipe output, errors, failure;
  if (argv.empty() || !output.open() || !errors.open() || !failure.open()) return result;
  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const std::string& argument : argv) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) return result;
  if (child == 0) {
    become(arguments.data(), output.write_end, errors.write_end, failure.write_end);
  }
  output.close_write();
  errors.close_write();
  failure.close_write();
  char failed = 0;
  ssize_t count;
  while ((count = read(failure.read_end, &failed, 1)) < 0 && errno == EINTR) {
  }
  result.started = count == 0;
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::milliseconds(static_cast<std::int64_t>(limit * 1000));
  result.timed_out = !read_until(deadline, output, errors, result);
  if (result.timed_out) kill(-child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) result.exit_status = WEXITSTATUS(status);
  return result;
}

std::optional<std::filesystem::path> find_on_path(const std::string& name) {
  const auto runnable = [](const std::filesystem::path& file) {
    std::error_code ignored;
    return std::filesystem::is_regular_file(file, ignored) && access(file.c_str(), X_OK) == 0;
  };
  if (name.find('/') != name.npos) {
    if (runnable(name)) return name;
    return std::nullopt;
  }
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? std::string_view() : std::string_view(path);
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    const auto file = std::filesystem::path(folder.empty() ? "." : std::string(folder)) / name;
    if (!name.empty() && runnable(file)) return file;
  }
  return std::nullopt;
}

}  // namespace resumecheck
