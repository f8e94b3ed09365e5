// A full disk, a limit on file sizes and an earlier run in the same folder: afterwards the file
// holds whole lines of one run, and the error says which result was lost.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/report/example_result.h"
#include "harness/report/report.h"
#include "harness/state/expect_error.h"
#include "harness/state/file.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

const Provenance provenance = {"run-1", R"({"glibc": "2.36"})"};

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  EXPECT_TRUE(text.empty() || text.back() == '\n') << "half a line at the end of the file";
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(ResultsFile, BeginsWithTheRunAndGrowsByLines) {
  TemporaryFolder folder;
  const std::filesystem::path file = folder / "out/deep/results.jsonl";
  ResultsFile results(file, provenance);
  ASSERT_EQ(lines_of(file).size(), 1U) << "even a run without results says what it ran on";
  const auto head = nlohmann::json::parse(lines_of(file)[0]);
  EXPECT_EQ(head, nlohmann::json::parse(
                      R"({"schema": 1, "run_id": "run-1", "machine": {"glibc": "2.36"}})"));
  results.append(example_failure());
  results.append(full_result());
  ASSERT_EQ(lines_of(file).size(), 3U);
  EXPECT_EQ(lines_of(file)[2], to_json_line(full_result(), "run-1"));
}

TEST(ResultsFile, AnEarlierRunIsReplacedNotMixed) {
  TemporaryFolder folder;
  const std::filesystem::path file = folder / "results.jsonl";
  {
    ResultsFile earlier(file, {"run-0", "{}"});
    earlier.append(example_failure());
  }
  ResultsFile results(file, provenance);
  const auto lines = lines_of(file);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("run-1"), std::string::npos);
}

// In a child, as a limit cannot be lifted again. Its exit status says what it saw.
int in_child(const std::function<int()>& act) {
  const pid_t child = fork();
  if (child == 0) std::_Exit(act());
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ResultsFile, AFileSizeLimitCostsOneResultAndNoLine) {
  TemporaryFolder folder;
  const std::filesystem::path file = folder / "results.jsonl";
  constexpr int written_before_the_limit = 3;
  const auto line = static_cast<rlim_t>(to_json_line(full_result(), "run-1").size() + 1);
  const int status = in_child([&] {
    ResultsFile results(file, provenance);
    for (int i = 0; i < written_before_the_limit; ++i) results.append(full_result());
    const auto size = static_cast<rlim_t>(std::filesystem::file_size(file));
    const rlimit limit = {size + line / 2, size + line / 2};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 10;
    try {
      results.append(full_result());
    } catch (const Error& error) {
      const std::string text = error.what();
      if (error.kind() != Error::Kind::harness) return 11;
      if (text.find("File too large") == text.npos) return 12;
      if (text.find(full_result().name) == text.npos) return 13;
      return 0;
    }
    return 14;
  });
  EXPECT_EQ(status, 0) << "10: no limit; 11 to 13: the error's kind, reason, case; 14: no error";
  const auto lines = lines_of(file);
  ASSERT_EQ(lines.size(), 1U + written_before_the_limit);
  for (std::size_t i = 1; i < lines.size(); ++i) from_json_line(lines[i]);
}

TEST(ResultsFile, AFolderThatCannotBeIsAnError) {
  TemporaryFolder folder;
  write_file(folder / "taken", std::string_view("a file"));
  expect_error(Error::Kind::harness, {"taken"},
               [&] { ResultsFile(folder / "taken/results.jsonl", provenance); });
}

TEST(ResultsFile, AFullDeviceIsAnErrorNamingTheCase) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "this system has no /dev/full";
  TemporaryFolder folder;
  const std::filesystem::path file = folder / "results.jsonl";
  const int status = in_child([&] {
    ResultsFile results(file, provenance);
    // The descriptor of the results now leads to a device that is always full.
    for (int descriptor = 3; descriptor < 64; ++descriptor) {
      std::error_code failed;
      const auto link =
          std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), failed);
      if (failed || link != file) continue;
      const int full = ::open("/dev/full", O_WRONLY);
      if (dup2(full, descriptor) < 0) return 10;
    }
    try {
      results.append(example_failure());
    } catch (const Error& error) {
      const std::string text = error.what();
      return text.find("No space left") != text.npos && text.find("dp4->dp2") != text.npos ? 0 : 11;
    }
    return 12;
  });
  EXPECT_EQ(status, 0) << "11: the error's words; 12: no error";
}

TEST(ResultsFile, IsReadBackAsItWasWritten) {
  TemporaryFolder folder;
  const std::filesystem::path file = folder / "results.jsonl";
  {
    ResultsFile results(file, provenance);
    EXPECT_TRUE(read_results(file).empty());
    results.append(example_failure());
    results.append(full_result());
  }
  const auto read = read_results(file);
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(to_json_line(read[0], "r"), to_json_line(example_failure(), "r"));
  EXPECT_EQ(to_json_line(read[1], "r"), to_json_line(full_result(), "r"));
  EXPECT_EQ(read[1].variant, "adamw8bit,bf16");
  expect_error(Error::Kind::usage, {"none.jsonl", "no such file of results"},
               [&] { read_results(folder / "none.jsonl"); });
  write_file(file, read_file(file) + "{}\n");
  expect_error(Error::Kind::harness, {"results.jsonl:4", "no result of this version"},
               [&] { read_results(file); });
}

TEST(ResultsFile, WhatNoRunWroteIsNoRunWithoutResults) {
  TemporaryFolder folder;
  const std::filesystem::path file = folder / "results.jsonl";
  const std::string result = to_json_line(full_result(), "run-1");
  const std::pair<std::string, const char*> foreign[] = {
      {"", "not the first line"},
      {"hello\n", "not the first line"},
      {"[]\n", "not the first line"},
      {"{\"schema\": 1}\n", "not the first line"},
      {result + "\n" + result + "\n", "not the first line"},
      {R"({"schema": 2, "run_id": "r", "machine": {}})"
       "\n",
       "has the schema 2, and this version reads 1"}};
  for (const auto& [text, words] : foreign) {
    write_file(file, text);
    expect_error(Error::Kind::usage, {"results.jsonl:1", words}, [&] { read_results(file); });
  }
}

TEST(ResultsFile, ABrokenLineIsToldInPlainWords) {
  try {
    from_json_line("{\"schema\": 1}");
    FAIL() << "no error";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("key 'case' not found"), text.npos) << text;
    EXPECT_EQ(text.find("json.exception"), text.npos) << text;
  }
}

}  // namespace
}  // namespace resumecheck
