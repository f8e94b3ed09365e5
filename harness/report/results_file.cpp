// results.jsonl grows by one whole line a case, and whatever stops the run leaves whole lines only:
// a reader must never meet half a result, and a full disk must cost one result, not the file.
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/report/report.h"
#include "harness/state/error.h"
#include "harness/state/file.h"

namespace resumecheck {
namespace {

// A file-size limit arrives as SIGXFSZ, which would end the program before it could say why: held
// back while writing, so that write() reports EFBIG instead.
class HoldBackFileSizeSignal {
 public:
  HoldBackFileSizeSignal() {
    sigemptyset(&only_);
    sigaddset(&only_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &only_, &before_);
  }
  ~HoldBackFileSizeSignal() {
    const timespec at_once = {0, 0};
    while (sigtimedwait(&only_, nullptr, &at_once) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  HoldBackFileSizeSignal(const HoldBackFileSizeSignal&) = delete;
  HoldBackFileSizeSignal& operator=(const HoldBackFileSizeSignal&) = delete;

 private:
  sigset_t only_;
  sigset_t before_;
};

// 0, or the errno of the write that failed.
int write_all(int descriptor, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = write(descriptor, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) return ENOSPC;
    done += static_cast<std::size_t>(count);
  }
  // Some file systems find out only now that the disk is full; what cannot be synced at all (a
  // pipe) answers EINVAL.
  if (fdatasync(descriptor) != 0 && errno != EINVAL && errno != EROFS) return errno;
  return 0;
}

[[noreturn]] void refuse(const std::filesystem::path& file, int reason, const std::string& lost) {
  throw Error(Error::Kind::harness, file.string(),
              "cannot write" + lost + ": " + std::strerror(reason),
              "make room or choose another --out folder; what is in the file is whole");
}

// The first line is of the run. Without looking at it, any file of one line would be a run without
// results, and a file that lost its head would lose a result with it.
void check_head(const std::string& line, const std::filesystem::path& file) {
  const nlohmann::json head = nlohmann::json::parse(line, nullptr, false);
  const auto refuse_file = [&](const std::string& what) {
    throw Error(Error::Kind::usage, fmt::format("{}:1", file.string()), what,
                "name the results.jsonl of a run");
  };
  const bool of_a_run = head.is_object() && head.contains("schema") && head.contains("run_id") &&
                        head.contains("machine");
  if (!of_a_run) refuse_file("is not the first line that a run writes");
  if (head["schema"] != results_schema) {
    refuse_file(fmt::format("has the schema {}, and this version reads {}", head["schema"].dump(),
                            results_schema));
  }
}

}  // namespace

ResultsFile::ResultsFile(const std::filesystem::path& file, const Provenance& provenance)
    : file_(file), run_id_(provenance.run_id) {
  using Json = nlohmann::ordered_json;
  const Json head = {{"schema", results_schema},
                     {"run_id", run_id_},
                     {"machine", Json::parse(provenance.json, nullptr, false)}};
  std::error_code failed;
  if (!file.parent_path().empty()) std::filesystem::create_directories(file.parent_path(), failed);
  if (failed) {
    throw Error(Error::Kind::harness, file.parent_path().string(),
                "cannot make the folder: " + failed.message(), "choose another --out folder");
  }
  const HoldBackFileSizeSignal hold_back;
  write_file(file, head.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  descriptor_ = open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor_ < 0) refuse(file, errno, {});
}

ResultsFile::~ResultsFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void ResultsFile::append(const CaseResult& result) {
  const HoldBackFileSizeSignal hold_back;
  struct stat before = {};
  if (fstat(descriptor_, &before) != 0) refuse(file_, errno, " the result of " + result.name);
  const int reason = write_all(descriptor_, to_json_line(result, run_id_) + "\n");
  if (reason == 0) return;
  while (ftruncate(descriptor_, before.st_size) != 0 && errno == EINTR) {
  }
  refuse(file_, reason, " the result of " + result.name);
}

std::vector<CaseResult> read_results(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) {
    throw Error(Error::Kind::usage, file.string(), "there is no such file of results",
                "name the results.jsonl of a run, or run some cases first");
  }
  std::istringstream lines(read_file(file));
  std::vector<CaseResult> results;
  std::string line;
  std::getline(lines, line);
  check_head(line, file);
  for (int number = 2; std::getline(lines, line); ++number) {
    try {
      results.push_back(from_json_line(line));
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}:{}", file.string(), number), error.problem(),
                  error.cure());
    }
  }
  return results;
}

}  // namespace resumecheck
