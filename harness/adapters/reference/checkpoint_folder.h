// The reference's checkpoint is a folder of state files, one a rank of the mesh that saved. What is
// missing, cut short or of another run is the subject's failure, and its message names the file.
#pragma once

#include <filesystem>

#include "harness/state/assembly.h"

namespace resumecheck {

// Reads the files of every saving rank, whatever the mesh. Error(subject): no folder, no files, a
// missing or unreadable one, ranks that disagree, holes.
AssembledState read_checkpoint(const std::filesystem::path& folder);

}  // namespace resumecheck
