// A resume must leave the checkpoint as it found it: other cases resume from the same one, and a
// framework that writes into what it loads would make the next resume a different experiment.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/compare/case_result.h"
#include "harness/scenario/scenario.h"

namespace resumecheck {

class CheckpointGuard {
 public:
  CheckpointGuard() = default;
  explicit CheckpointGuard(std::filesystem::path folder);
  // "rank0.json was changed", "x was added", "y was removed"; nothing where all is as it was.
  std::optional<std::string> what_changed() const;
  // A resume that changed it has failed, whatever else it did well.
  void judge(CaseResult& result) const;

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::string> digests_;  // path below the folder -> digest
};

// The checkpoint faults among `faults`: the largest file cut in half, the folder removed.
void damage_checkpoint(const std::filesystem::path& folder, const std::vector<FaultSpec>& faults);

}  // namespace resumecheck
