#include "harness/adapters/reference/checkpoint_folder.h"

#include <string>

#include "harness/state/error.h"

namespace resumecheck {
namespace {

Error subject(const std::string& where, const std::string& what, const std::string& cure) {
  return Error(Error::Kind::subject, where, what, cure);
}

void check_there(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    throw subject(folder.string(), "there is no such checkpoint folder",
                  "the save must have run before the load");
  }
  if (!std::filesystem::exists(folder / state_file_name(0), ignored)) {
    throw subject(folder.string(), "holds no " + state_file_name(0),
                  "a checkpoint of the reference has one state file a rank");
  }
}

Assembly read_all(const std::filesystem::path& folder) {
  try {
    const int world = read_rank_state(folder / state_file_name(0)).world;
    return read_states(folder, world);
  } catch (const Error& error) {  // here the file is the subject's, not the harness's
    throw subject(error.where(), error.problem(), error.cure());
  }
}

}  // namespace

AssembledState read_checkpoint(const std::filesystem::path& folder) {
  check_there(folder);
  Assembly assembly = read_all(folder);
  if (!assembly.problems.empty()) {
    throw subject(folder.string(), assembly.problems.front().message,
                  "the checkpoint must be whole, and its replicas must agree");
  }
  return std::move(assembly.assembled);
}

}  // namespace resumecheck
