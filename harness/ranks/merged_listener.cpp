// Ranks exchange their failures when a test ends, and add the others' to their own before the
// printer, which was added first and hears of the end last, speaks.
#include "harness/ranks/merged_listener.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>

namespace resumecheck {
namespace {

std::string text_of_failures(const testing::TestResult& result) {
  std::string text;
  for (int i = 0; i < result.total_part_count(); ++i) {
    const testing::TestPartResult& part = result.GetTestPartResult(i);
    if (!part.failed()) continue;
    if (part.file_name() != nullptr) {
      text += std::string(part.file_name()) + ":" + std::to_string(part.line_number()) + ": ";
    }
    text += std::string(part.message()) + "\n";
  }
  return text;
}

class MergedListener final : public testing::EmptyTestEventListener {
 public:
  explicit MergedListener(Communicator& ranks) : ranks_(ranks) {}

  void OnTestStart(const testing::TestInfo&) override {
    trace_.emplace(__FILE__, __LINE__, "on rank " + std::to_string(ranks_.rank()));
  }

  void OnTestEnd(const testing::TestInfo& info) override {
    trace_.reset();
    exchange(text_of_failures(*info.result()));
  }

  // What fails outside a test: a suite's or the environment's set-up.
  void OnTestProgramEnd(const testing::UnitTest& all) override {
    exchange(text_of_failures(all.ad_hoc_test_result()));
  }

 private:
  void exchange(const std::string& mine) {
    const auto everyone = ranks_.all_gather(std::as_bytes(std::span(mine.data(), mine.size())));
    for (int other = 0; other < ranks_.size(); ++other) {
      const Bytes& theirs = everyone[static_cast<std::size_t>(other)];
      if (other == ranks_.rank() || theirs.empty()) continue;
      ADD_FAILURE() << "on rank " << other << ": "
                    << std::string(reinterpret_cast<const char*>(theirs.data()), theirs.size());
    }
  }

  Communicator& ranks_;
  std::optional<testing::ScopedTrace> trace_;
};

template <typename T>
T of_rank_zero(Communicator& ranks, T mine) {
  const auto all = ranks.all_gather(std::as_bytes(std::span(&mine, 1)));
  std::memcpy(&mine, all[0].data(), sizeof mine);
  return mine;
}

}  // namespace

void merge_ranks(Communicator& ranks) {
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  if (ranks.rank() != 0) {
    delete listeners.Release(listeners.default_result_printer());
    delete listeners.Release(listeners.default_xml_generator());
    GTEST_FLAG_SET(output, "");
  }
  if (GTEST_FLAG_GET(shuffle)) {
    const std::int32_t seed = GTEST_FLAG_GET(random_seed);
    GTEST_FLAG_SET(random_seed, seed != 0 ? seed : of_rank_zero(ranks, std::int32_t{4711}));
  }
  listeners.Append(new MergedListener(ranks));
}

int run_merged_tests(Communicator& ranks) { return of_rank_zero(ranks, RUN_ALL_TESTS()); }

}  // namespace resumecheck
