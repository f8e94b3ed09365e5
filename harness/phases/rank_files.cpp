#include "harness/phases/rank_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "harness/phases/process.h"
#include "harness/state/file.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;

constexpr int kOutputLines = 20;

std::string text_of(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file, ignored) ? read_file(file) : "";
}

}  // namespace

std::string flood_note(const std::string& who, double bytes) {
  if (bytes <= 2.0 * 64 * 1024) return "";
  return fmt::format("{} printed {:.1f} MB, of which the first and last 64 KiB are kept", who,
                     bytes / 1e6);
}

double bytes_left_out(const fs::path& records, int rank) {
  static const std::regex marker(R"(\n\[(\d+) bytes dropped\]\n)");
  const std::string text = text_of(records / fmt::format("output_rank{}.txt", rank));
  std::smatch found;
  const std::string middle = text.substr(std::min<std::size_t>(text.size(), 64 * 1024), 64);
  return std::regex_search(middle, found, marker) ? std::stod(found[1]) + 2.0 * 64 * 1024 : 0;
}

double seconds_until(const fs::path& file, FileTime began) {
  std::error_code problem;
  const FileTime written = fs::last_write_time(file, problem);
  return problem ? 0 : std::chrono::duration<double>(written - began).count();
}

RankEnd read_rank_end(const fs::path& records, int rank, FileTime phase_began) {
  RankEnd end;
  end.rank = rank;
  end.record = read_exit_record(records, rank);
  end.progress = read_progress(records, rank);
  end.output_tail =
      last_lines(text_of(records / fmt::format("output_rank{}.txt", rank)), kOutputLines);
  end.stacks = text_of(records / fmt::format("stacks_rank{}.txt", rank));
  if (end.record) {
    end.how = RankEnd::How::finished;
    end.ended_after = seconds_until(records / exit_record_name(rank), phase_began);
  }
  return end;
}

bool any_progress(const PhaseRequest& request) {
  for (int rank = 0; rank < request.mesh.world(); ++rank) {
    std::error_code ignored;
    if (fs::exists(request.records / progress_file_name(rank), ignored) ||
        fs::exists(request.records / exit_record_name(rank), ignored)) {
      return true;
    }
  }
  return false;
}

bool any_failure(const PhaseRequest& request) {
  for (int rank = 0; rank < request.mesh.world(); ++rank) {
    std::error_code ignored;
    if (!fs::exists(request.records / exit_record_name(rank), ignored)) continue;
    const auto record = read_exit_record(request.records, rank);
    if (record && !record->ok) return true;
  }
  return false;
}

fs::path prepare_phase(const PhaseRequest& request) {
  fs::remove_all(request.states);
  fs::remove_all(request.records);
  fs::create_directories(request.states);
  fs::create_directories(request.records);
  if (request.phase == "save_run") fs::create_directories(request.checkpoint);
  const fs::path file = request.records.parent_path() / "request.json";
  write_phase_request(file, request);
  return file;
}

}  // namespace resumecheck
