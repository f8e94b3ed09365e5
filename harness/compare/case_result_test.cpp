#include "harness/compare/case_result.h"

#include <gtest/gtest.h>

namespace resumecheck {
namespace {

constexpr Verdict kAll[] = {Verdict::pass,  Verdict::fail, Verdict::vacuous, Verdict::xfail,
                            Verdict::xpass, Verdict::skip, Verdict::error,   Verdict::timeout};

TEST(CaseResult, Names) {
  const char* names[] = {"PASS", "FAIL", "VACUOUS", "XFAIL", "XPASS", "SKIP", "ERROR", "TIMEOUT"};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(name_of(kAll[i]), names[i]);
}

TEST(CaseResult, EachVerdictsExitCode) {
  const int codes[] = {0, 1, 1, 0, 1, 77, 3, 3};
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(exit_code({kAll[i]}), codes[i]) << name_of(kAll[i]);
    EXPECT_EQ(unexpected(kAll[i]), codes[i] == 1) << name_of(kAll[i]);
  }
}

TEST(CaseResult, TheWorstDecides) {
  using V = Verdict;
  EXPECT_EQ(exit_code({}), 2) << "zero cases run is never green";
  EXPECT_EQ(exit_code({V::error, V::pass, V::vacuous}), 1) << "unexpected outranks unfinished";
  EXPECT_EQ(exit_code({V::timeout, V::skip, V::pass}), 3);
  EXPECT_EQ(exit_code({V::skip, V::skip}), 77);
  EXPECT_EQ(exit_code({V::skip, V::pass}), 0);
  EXPECT_EQ(exit_code({V::skip, V::xfail}), 0);
}

}  // namespace
}  // namespace resumecheck
