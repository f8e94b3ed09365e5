// A fault of the checkpoint is believed to have happened: each must change what is there, or say
// that there was nothing to change.
#include "harness/phases/checkpoint_guard.h"

#include <gtest/gtest.h>

#include "harness/state/expect_error.h"
#include "harness/state/file.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;

FaultSpec fault(const std::string& name) {
  FaultSpec fault;
  fault.name = name;
  return fault;
}

TEST(DamagedCheckpoint, LosesHalfItsLargestFileOrAll) {
  TemporaryFolder folder;
  const fs::path checkpoint = folder / "checkpoint";
  fs::create_directories(checkpoint / "deep");
  write_file(checkpoint / "small", std::string_view("1234"));
  write_file(checkpoint / "deep/large", std::string_view("12345678"));
  const CheckpointGuard guard(checkpoint);
  damage_checkpoint(checkpoint, {fault("zero_moments")});
  EXPECT_FALSE(guard.what_changed());
  damage_checkpoint(checkpoint, {fault("truncate_checkpoint")});
  EXPECT_EQ(guard.what_changed().value_or(""), "deep/large was changed");
  EXPECT_EQ(fs::file_size(checkpoint / "deep/large"), 4U);
  damage_checkpoint(checkpoint, {fault("remove_checkpoint")});
  EXPECT_FALSE(fs::exists(checkpoint));
}

TEST(DamagedCheckpoint, WhereNoFileIsNothingCanBeDamaged) {
  TemporaryFolder folder;
  fs::create_directories(folder / "empty");
  for (const char* name : {"truncate_checkpoint", "remove_checkpoint"}) {
    for (const char* checkpoint : {"empty", "none"}) {
      expect_error(Error::Kind::usage,
                   {checkpoint, std::string(name) + ": holds no file", "that writes files"},
                   [&] { damage_checkpoint(folder / checkpoint, {fault(name)}); });
    }
  }
}

TEST(CheckpointGuard, AResumeThatWroteIntoWhatItLoadedHasFailed) {
  TemporaryFolder folder;
  write_file(folder / "rank0", std::string_view("1234"));
  const CheckpointGuard guard(folder.path());
  CaseResult result;
  result.verdict = Verdict::pass;
  guard.judge(result);
  EXPECT_EQ(result.verdict, Verdict::pass);
  write_file(folder / "rank0", std::string_view("1235"));
  guard.judge(result);
  EXPECT_EQ(result.verdict, Verdict::fail);
  EXPECT_EQ(result.failed_at, "load");
  EXPECT_EQ(result.symptom, "the resume changed the checkpoint it loaded: rank0 was changed");
}

}  // namespace
}  // namespace resumecheck
