#include "harness/state/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "harness/state/expect_error.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

int files_in(const std::filesystem::path& folder) {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

TEST(File, RoundTripKeepsEveryByte) {
  const TemporaryFolder folder;
  const std::string text("zero\0inside\n\xff", 13);
  write_file(folder / "a", text);
  EXPECT_EQ(read_file(folder / "a"), text);
  write_file(folder / "a", std::string_view());
  EXPECT_EQ(read_file(folder / "a"), "") << "a shorter text replaces a longer one wholly";
  EXPECT_EQ(files_in(folder.path()), 1) << "no temporary file may stay behind";
}

TEST(File, AFailedWriteLeavesTheOldFileAndNothingElse) {
  const TemporaryFolder folder;
  write_file(folder / "a", "old");
  struct rlimit before {};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 4096, before.rlim_max };
  setrlimit(RLIMIT_FSIZE, &small);  // as a full disk does, but only for this process
  const std::string large(100'000, 'x');
  try {
    write_file(folder / "a", large);
    ADD_FAILURE() << "a write that the system refuses must be an Error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a: cannot be written: File too large"),
              std::string::npos)
        << error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_EQ(files_in(folder.path()), 1) << "the half-written temporary file must be removed";
}

TEST(File, ErrorsNameTheFileAndTheReason) {
  const TemporaryFolder folder;
  const auto harness = Error::Kind::harness;
  expect_error(harness, {folder.path().string() + "/none", "No such file"},
               [&] { read_file(folder / "none"); });
  expect_error(harness, {folder.path().string(), "Is a directory"},
               [&] { read_file(folder.path()); });
  expect_error(harness, {"none/a", "No such file"}, [&] { write_file(folder / "none/a", "x"); });
  expect_error(harness, {"pipe", "not a regular file"}, [&] {
    const std::string pipe = (folder / "pipe").string();
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    // A writer, so that opening the reading end does not wait for one.
    const int writer = ::open(pipe.c_str(), O_RDWR);
    try {
      read_file(pipe);
    } catch (...) {
      ::close(writer);
      throw;
    }
  });
}

TEST(File, AFileThatShrinksMeanwhileIsAnErrorNotACrash) {
  const TemporaryFolder folder;
  write_file(folder / "a", std::string(10'000, 'x'));
  const FileReader reader(folder / "a");
  std::filesystem::resize_file(folder / "a", 100);
  std::vector<std::byte> onto(10'000);
  expect_error(Error::Kind::harness, {"a, byte 100", "9900 bytes short"},
               [&] { reader.read(0, onto); });
}

TEST(File, SeveralPiecesAreOneFile) {
  const TemporaryFolder folder;
  const std::string one = "one", two = "two";
  write_file(folder / "a",
             {std::as_bytes(std::span(one.data(), 3)), {}, std::as_bytes(std::span(two.data(), 3))},
             Durability::survives_the_process);
  EXPECT_EQ(read_file(folder / "a"), "onetwo");
}

}  // namespace
}  // namespace resumecheck
