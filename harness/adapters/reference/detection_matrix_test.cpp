// The suite's own proof: every defect of the reference is caught by a scenario and called by its
// name, every scenario can fail, and without a defect all are green.
#include "harness/adapters/reference/detection_matrix.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace resumecheck {
namespace {

std::filesystem::path scratch() {
  return std::filesystem::temp_directory_path() /
         ("detection_matrix_test_" + std::to_string(getpid()));
}

TEST(DetectionMatrix, EveryDefectIsCaughtAndNamedAndEveryScenarioCanFail) {
  const std::filesystem::path root = RESUMECHECK_SOURCE_DIR;
  const DetectionMatrix matrix =
      detect(expand(read_scenarios(root / "scenarios"), {}), root, scratch());
  std::filesystem::remove_all(scratch());
  ASSERT_FALSE(matrix.rows.empty()) << "no native scenario was found below scenarios/";
  EXPECT_TRUE(matrix.problems().empty()) << to_text(matrix);
}

DetectionMatrix small_matrix() {
  DetectionMatrix matrix;
  matrix.defects = {"zero_moments"};
  DetectionRow row;
  row.scenario = "a/b";
  row.control.verdict = Verdict::pass;
  row.cells = {{"zero_moments", DetectionCell::Outcome::caught, "fresh start", true, "", "", ""}};
  matrix.rows = {row};
  return matrix;
}

TEST(DetectionMatrixProblems, AreNoneWhereTheDefectIsCaughtByItsName) {
  EXPECT_TRUE(small_matrix().problems().empty());
}

TEST(DetectionMatrixProblems, ADefectThatIsOnlyCaughtUnderAnotherNameIsOne) {
  DetectionMatrix matrix = small_matrix();
  matrix.rows[0].cells[0].named = false;
  ASSERT_EQ(matrix.problems().size(), 1U);
  EXPECT_NE(matrix.problems()[0].find("zero_moments"), std::string::npos);
}

TEST(DetectionMatrixProblems, OneScenarioNeedNotCatchEveryDefect) {
  DetectionMatrix matrix = small_matrix();
  matrix.defects.push_back("stale_shard");
  matrix.rows[0].cells.push_back(
      {"stale_shard", DetectionCell::Outcome::no_effect, "", false, "", "", ""});
  EXPECT_EQ(matrix.problems().size(), 1U);
  matrix.whole = false;
  EXPECT_TRUE(matrix.problems().empty()) << to_text(matrix);
}

TEST(DetectionMatrixProblems, AScenarioThatNoDefectTurnsRedIsOne) {
  for (const auto outcome : {DetectionCell::Outcome::no_effect, DetectionCell::Outcome::missed}) {
    DetectionMatrix matrix = small_matrix();
    matrix.rows.push_back(matrix.rows[0]);
    matrix.rows[1].scenario = "a/blind";
    matrix.rows[1].cells[0].outcome = outcome;
    ASSERT_EQ(matrix.problems().size(), 1U);
    EXPECT_EQ(matrix.problems()[0], "a/blind cannot fail: no defect turns it red");
  }
}

TEST(DetectionMatrixProblems, AControlThatIsNotGreenIsOne) {
  for (const Verdict verdict : {Verdict::fail, Verdict::vacuous, Verdict::error}) {
    DetectionMatrix matrix = small_matrix();
    matrix.rows[0].control.verdict = verdict;
    EXPECT_EQ(matrix.problems().size(), 1U);
  }
}

TEST(DetectionMatrixProblems, NothingLookedAtIsOne) {
  DetectionMatrix matrix = small_matrix();
  matrix.rows.clear();
  EXPECT_FALSE(matrix.problems().empty());
}

}  // namespace
}  // namespace resumecheck
