// A golden names the commit whose arithmetic it is. Made by a program of other sources, or of
// sources that nobody else has, it could never be made again; so whoever writes one asks first.
#pragma once

#include <filesystem>

namespace resumecheck {

// Error(usage) where the sources below `root` that this program is built of (kernels, harness,
// cmake, CMake's own files) are not those of the commit it was built from, untracked ones included;
// in a repository that does not have that commit, of the one that is checked out. Nothing is asked
// where `root` is no git checkout. Scenarios and goldens may be what they like.
void require_committed_sources(const std::filesystem::path& root);

}  // namespace resumecheck
