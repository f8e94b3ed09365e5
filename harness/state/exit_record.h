// What one rank says about how its phase ended: exit_rank<k>.json. A missing record is a dead rank;
// the progress file beside it (progress_rank<k>, one line) says where it was last seen.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace resumecheck {

// The type of an exception that is a device's failure (kernels/device_failure.h): no verdict about
// the run that was on it.
constexpr std::string_view kDeviceFailure = "resumecheck::kernels::DeviceFailure";

struct ExitRecord {
  struct Exception {
    std::string type;       // "RuntimeError"
    std::string message;    // exactly what the framework said
    std::string traceback;  // may be empty
  };
  std::string phase;  // the last phase entered, in failed_at's words: "save_run step 3", "save",
                      // "load", "step 4"
  bool ok = false;
  std::int64_t step = 0;  // last step completed
  std::optional<Exception> exception;
  double seconds = 0;
  std::string transport;           // what carried the ranks; empty: not told
  std::vector<std::string> notes;  // shown with the result: e.g. the two dtypes of a DTensor
};

std::string exit_record_name(int rank);    // "exit_rank3.json"
std::string progress_file_name(int rank);  // "progress_rank3"

void write_exit_record(const std::filesystem::path& directory, int rank, const ExitRecord& record);
std::optional<ExitRecord> read_exit_record(const std::filesystem::path& directory,
                                           int rank);  // nothing: no such file
void write_progress(const std::filesystem::path& directory, int rank, const std::string& phase);
std::string read_progress(const std::filesystem::path& directory,
                          int rank);  // "" where there is none

}  // namespace resumecheck
