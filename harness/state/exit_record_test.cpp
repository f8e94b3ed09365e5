#include "harness/state/exit_record.h"

#include <gtest/gtest.h>

#include "harness/state/expect_error.h"
#include "harness/state/file.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

TEST(ExitRecord, RoundTrip) {
  const TemporaryFolder folder;
  ExitRecord record;
  record.phase = "step 4";
  record.step = 3;
  record.seconds = 1.25;
  record.notes = {"wrapper torch.bfloat16, spec torch.float32"};
  record.exception = ExitRecord::Exception{"RuntimeError", "expected \"bf16\"\nfor `end`", "File"};
  write_exit_record(folder.path(), 3, record);
  const auto read = read_exit_record(folder.path(), 3);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->phase, "step 4");
  EXPECT_FALSE(read->ok);
  EXPECT_EQ(read->step, 3);
  EXPECT_EQ(read->seconds, 1.25);
  EXPECT_EQ(read->notes, record.notes);
  ASSERT_TRUE(read->exception.has_value());
  EXPECT_EQ(read->exception->type, "RuntimeError");
  EXPECT_EQ(read->exception->message, record.exception->message) << "exactly what was said";
  EXPECT_EQ(read->exception->traceback, "File");
}

TEST(ExitRecord, AnAbsentOneIsADeadRankNotAnError) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_exit_record(folder.path(), 0).has_value());
}

TEST(ExitRecord, BytesThatAreNoTextCannotLoseTheRecord) {
  const TemporaryFolder folder;
  ExitRecord record;
  record.exception = ExitRecord::Exception{"E", "bad byte \xff here", ""};
  write_exit_record(folder.path(), 0, record);
  EXPECT_EQ(read_exit_record(folder.path(), 0)->exception->message, "bad byte \xef\xbf\xbd here");
}

TEST(ExitRecord, WhatIsNoRecordNamesFileAndPlace) {
  const TemporaryFolder folder;
  const struct {
    const char* text;
    const char* word;
  } table[] = {
      {"", "byte 0"},
      {"{\"schema\": 1", "byte"},
      {"[]", "not a JSON object"},
      {"{\"schema\": 2, \"phase\": \"load\", \"ok\": true, \"step\": 3, \"exception\": null, "
       "\"seconds\": 1, \"notes\": []}",
       "schema"},
      {"{\"schema\": 1, \"phase\": \"load\", \"ok\": 1, \"step\": 3, \"exception\": null, "
       "\"seconds\": 1, \"notes\": []}",
       "'ok'"},
      {"{\"schema\": 1, \"phase\": \"load\", \"ok\": true, \"exception\": null, \"seconds\": 1, "
       "\"notes\": []}",
       "'step' is missing"},
      {"{\"schema\": 1, \"phase\": \"load\", \"phase\": \"x\"}", "twice"},
      {"{\"schema\": 1, \"phase\": \"load\", \"ok\": true, \"step\": 3, \"exception\": \"boom\", "
       "\"seconds\": 1, \"notes\": []}",
       "not a JSON object"},
      {"{\"schema\": 1, \"phase\": \"load\", \"ok\": true, \"step\": 3, \"exception\": null, "
       "\"seconds\": 1, \"notes\": [], \"more\": 1}",
       "unknown key 'more'"},
  };
  for (const auto& [text, word] : table) {
    write_file(folder / "exit_rank1.json", text);
    expect_error(Error::Kind::harness, {"exit_rank1.json", word},
                 [&] { read_exit_record(folder.path(), 1); });
  }
}

TEST(Progress, TheLastLineWins) {
  const TemporaryFolder folder;
  EXPECT_EQ(read_progress(folder.path(), 2), "");
  write_progress(folder.path(), 2, "save_run step 3");
  write_progress(folder.path(), 2, "save");
  EXPECT_EQ(read_progress(folder.path(), 2), "save");
}

}  // namespace
}  // namespace resumecheck
