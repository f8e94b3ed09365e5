// What is written down of a case, field by field as results.jsonl holds it; everything a person
// sees is rendered from this. The only place that says which verdicts are unexpected and which exit
// code a run ends with.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/compare/bit_compare.h"
#include "harness/compare/diagnosis.h"

namespace resumecheck {

enum class Verdict { pass, fail, vacuous, xfail, xpass, skip, error, timeout };
std::string_view name_of(
    Verdict verdict);  // "PASS", "FAIL", "VACUOUS", "XFAIL", "XPASS", "SKIP", "ERROR", "TIMEOUT"
bool unexpected(Verdict verdict);  // FAIL, VACUOUS, XPASS

// 1 anything unexpected (outranks 3), 3 ERROR or TIMEOUT, 77 everything skipped, 0 otherwise.
// An empty list is 2: zero tests run is never green.
int exit_code(const std::vector<Verdict>& verdicts);

struct EnvironmentRecord {
  std::string name;
  std::map<std::string, std::string> packages;
};

struct CaseResult {
  std::string name, scenario, variant, adapter;  // variant: "" where the scenario has none
  std::optional<EnvironmentRecord> save_environment, load_environment;
  std::string from, onto, device = "cpu";
  std::vector<std::string> stand_ins;
  Verdict verdict = Verdict::error;
  std::string
      failed_at;  // "save_run step 4", "save", "load", "after_load", "step 5", "golden", or ""
  std::string symptom;       // one line, exactly what was seen
  std::string reason;        // SKIP, VACUOUS, ERROR, TIMEOUT: why
  std::string known_broken;  // origin of the matching entry, or ""
  std::map<std::string, std::string>
      oracles;  // after_load, trajectory, golden -> pass | fail | not_reached | not_applicable
  std::int64_t compared_tensors = 0, compared_bytes = 0;
  std::map<std::string, PartTally>
      parts;  // of the failing comparison, or of after_load when all passed
  std::optional<Difference> first_difference;
  std::vector<std::string> holders;  // "saved by rank 2 of dp4", "held by rank 1 of dp2"
  Diagnosis diagnosis;
  std::vector<std::string>
      notes;  // from exit records: the two dtypes of a DTensor, "confirmed cold", ...
  std::string process = "new";    // new | same | forked
  std::string transport = "mpi";  // mpi | nccl | threads | gloo | none
  std::string golden;             // digest, or ""
  double seconds = 0;
  std::string again;      // shell-quoted command
  std::string artifacts;  // folder, "" when nothing was kept
  std::string want_file, got_file;
  int attempt = 1;
  std::int64_t save_after = 0;  // steps before the save; 0: not known
};

}  // namespace resumecheck
