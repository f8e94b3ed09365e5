// Everything a person or a CI system reads, rendered from CaseResult: the console table and failure
// block, JUnit, and results.jsonl, which is the source of truth and is only ever extended by whole
// lines.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include "harness/compare/case_result.h"

namespace resumecheck {

constexpr int results_schema = 1;  // of every line of results.jsonl

struct Provenance {  // line 1 of results.jsonl
  std::string run_id;
  std::string json;  // the whole "machine" object, rendered
};
// CPU model and vector capability, glibc, GPU, driver, CUDA and NCCL versions where found, the
// harness's own commit and compiler flags.
Provenance read_provenance(const std::filesystem::path& root);

std::string to_json_line(const CaseResult& result, const std::string& run_id);  // no newline
CaseResult from_json_line(const std::string& line);                             // Error(harness)

// The failure block of DESIGN section 3, or the one line of a pass: "PASS  name  1.2 s".
std::string console_line(const CaseResult& result, bool colour);
std::string failure_block(const CaseResult& result, bool colour);
// The table at the end: a row a scenario and adapter@environment, a column a verdict, totals that
// add up, and the unexpected ones by name.
std::string summary_table(const std::vector<CaseResult>& results, bool colour);
std::string junit_xml(const std::vector<CaseResult>& results);

// Every result of a results.jsonl, in its order. Error(usage) where there is no such file or
// no run wrote it, Error(harness) naming the line that is no result.
std::vector<CaseResult> read_results(const std::filesystem::path& file);

std::string built_commit();  // of the sources of this build, 40 digits; "unknown"
std::string build_text();    // version and commit of this build: "0.1.0 (1142ad1)"

// Appends whole lines; on a full disk cuts back to the last whole line and throws Error(harness).
class ResultsFile {
 public:
  ResultsFile(const std::filesystem::path& file, const Provenance& provenance);
  ~ResultsFile();
  ResultsFile(const ResultsFile&) = delete;
  ResultsFile& operator=(const ResultsFile&) = delete;
  void append(const CaseResult& result);

 private:
  std::filesystem::path file_;
  std::string run_id_;
  int descriptor_ = -1;
};

}  // namespace resumecheck
