// How the ranks of one phase ended, whatever launched them. The first rank that failed by itself
// gives the symptom; the others, which only waited for it, do not.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/state/exit_record.h"

namespace resumecheck {

struct RankEnd {
  enum class How { finished, killed, hung, cancelled, missing };
  int rank = 0;
  How how = How::missing;
  int signal = 0;                    // killed
  int exit_status = 0;               // finished
  std::optional<ExitRecord> record;  // absent: it died before it could write one
  std::string progress;              // last phase it announced, "" = before its first
  std::string output_tail;           // last lines it printed
  std::string stacks;                // of a hung rank
  double ended_after = 0;            // seconds since the phase began; orders the failures
};

struct PhaseOutcome {
  std::vector<RankEnd> ranks;
  std::string launch_problem;    // the launcher or a rank server itself failed: ERROR, not FAIL
  bool harness_timeout = false;  // the harness's own part ran out of time: TIMEOUT
  std::string process = "new";
  std::string transport = "mpi";
  std::map<std::string, std::string> versions;  // as the ranks report them
  std::vector<std::string> stand_ins;
  std::vector<std::string> notes;  // what the harness saw: "rank 1 printed 200.0 MB"
  double seconds = 0;

  bool ok() const;
  // Of the rank that failed first by itself. failed_at as results.jsonl has it; symptom one line:
  // an exception's message, "rank 1 died: signal 9 (SIGKILL)", "hang in step 4".
  std::string failed_at() const;
  std::string symptom() const;
  // Whether that rank raised an exception of its own accord. A death, a hang, a lost peer and a
  // slip of a script (a name that does not exist, no memory) are failures, but refuse nothing.
  bool is_refusal() const;
};

}  // namespace resumecheck
