// What the ranks of a phase left in its records folder, read into RankEnds. A file's own time says
// when its rank ended, so that the first failure is found whatever order the files are read in.
#pragma once

#include <chrono>
#include <filesystem>

#include "harness/phases/phase_outcome.h"
#include "harness/phases/phase_request.h"

namespace resumecheck {

using FileTime = std::filesystem::file_time_type;

// record, progress, output_tail, stacks and, where there is a record, how = finished and when.
RankEnd read_rank_end(const std::filesystem::path& records, int rank, FileTime phase_began);

// Has any rank said that it began, or how it ended?
bool any_progress(const PhaseRequest& request);
// Has a rank's record said that it failed?
bool any_failure(const PhaseRequest& request);

// "rank 1 printed 200.0 MB, of which the first and last 64 KiB are kept"; "" for less than all
// that.
std::string flood_note(const std::string& who, double bytes);
// Bytes that a rank server left out of a rank's output.
double bytes_left_out(const std::filesystem::path& records, int rank);

// Makes the phase's folders, empty but for the checkpoint, and writes the request beside them;
// returns its path.
std::filesystem::path prepare_phase(const PhaseRequest& request);

// Seconds from the beginning until a file was last written; 0 where there is none.
double seconds_until(const std::filesystem::path& file, FileTime began);

}  // namespace resumecheck
