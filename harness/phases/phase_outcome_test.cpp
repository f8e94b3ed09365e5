// Which of several failing ranks is the cause.
#include "harness/phases/phase_outcome.h"

#include <gtest/gtest.h>

namespace resumecheck {
namespace {

using How = RankEnd::How;

RankEnd ended(int rank, How how, double after, const std::string& progress = "step 4") {
  RankEnd end;
  end.rank = rank;
  end.how = how;
  end.ended_after = after;
  end.progress = progress;
  return end;
}

RankEnd raised(int rank, double after, const std::string& message,
               const std::string& type = "RuntimeError") {
  RankEnd end = ended(rank, How::finished, after);
  end.record = ExitRecord{};
  end.record->phase = "step 4";
  end.record->exception = ExitRecord::Exception{type, message, ""};
  return end;
}

RankEnd well(int rank) {
  RankEnd end = ended(rank, How::finished, 1);
  end.record = ExitRecord{};
  end.record->ok = true;
  return end;
}

PhaseOutcome outcome_of(std::vector<RankEnd> ranks) {
  PhaseOutcome outcome;
  outcome.ranks = std::move(ranks);
  return outcome;
}

TEST(PhaseOutcomeTest, WellOnlyWhereEveryRankSaysSo) {
  EXPECT_TRUE(outcome_of({well(0), well(1)}).ok());
  EXPECT_FALSE(outcome_of({}).ok()) << "no ranks are no success";
  EXPECT_FALSE(outcome_of({well(0), ended(1, How::missing, 1)}).ok());
  EXPECT_FALSE(outcome_of({well(0), ended(1, How::finished, 1)}).ok()) << "status 0 without record";
  PhaseOutcome outcome = outcome_of({well(0)});
  outcome.launch_problem = std::string("mpirun exited with status 213");
  EXPECT_FALSE(outcome.ok());
}

TEST(PhaseOutcomeTest, FirstInTimeIsTheCause) {
  const PhaseOutcome outcome = outcome_of({raised(0, 2.0, "late"), raised(1, 1.0, "early")});
  EXPECT_EQ(outcome.symptom(), "early");
  EXPECT_EQ(outcome.failed_at(), "step 4");
}

TEST(PhaseOutcomeTest, OnlyAnExceptionOfItsOwnIsARefusal) {
  EXPECT_TRUE(outcome_of({raised(0, 1, "cannot slice"), well(1)}).is_refusal());
  EXPECT_FALSE(outcome_of({well(0), well(1)}).is_refusal());
  RankEnd ended_by_launcher = raised(0, 1, "cannot slice");
  ended_by_launcher.how = How::cancelled;
  EXPECT_TRUE(outcome_of({ended_by_launcher}).is_refusal()) << "after it had raised";
  for (const How how : {How::killed, How::hung, How::missing, How::finished}) {
    EXPECT_FALSE(outcome_of({ended(0, how, 1), well(1)}).is_refusal()) << static_cast<int>(how);
  }
  EXPECT_FALSE(outcome_of({raised(0, 1, "Connection closed by peer")}).is_refusal());
  RankEnd unnamed = raised(0, 1, "before any phase");
  unnamed.record->phase = "";
  EXPECT_FALSE(outcome_of({unnamed}).is_refusal());
  for (const char* slip : {"NameError", "AttributeError", "ScenarioError", "MemoryError"}) {
    EXPECT_FALSE(outcome_of({raised(0, 1, "oops", slip)}).is_refusal()) << slip;
  }
}

TEST(PhaseOutcomeTest, LostConnectionIsNeverTheCause) {
  RankEnd killed = ended(1, How::killed, 2.0);
  killed.signal = 9;
  EXPECT_EQ(outcome_of({raised(0, 1.9, "[pair.cc] Connection closed by peer"), killed}).symptom(),
            "rank 1 died: signal 9 (SIGKILL)");
  EXPECT_EQ(
      outcome_of({raised(0, 1.9, "another rank failed: rank 1", "PeerFailed"), raised(1, 2, "why")})
          .symptom(),
      "why");
}

TEST(PhaseOutcomeTest, LostConnectionAloneIsStillASymptom) {
  EXPECT_EQ(outcome_of({raised(0, 1, "Broken pipe"), well(1)}).symptom(), "Broken pipe");
}

TEST(PhaseOutcomeTest, CancelledAndHungRanksOnlyWaited) {
  EXPECT_EQ(outcome_of({ended(0, How::cancelled, 1), raised(1, 2, "why")}).symptom(), "why");
  EXPECT_EQ(outcome_of({ended(0, How::hung, 1), ended(1, How::finished, 9)}).symptom(),
            "rank 1 exited with status 0 before it finished");
}

TEST(PhaseOutcomeTest, OfHungRanksTheOneFurthestBehindIsNamed) {
  const PhaseOutcome outcome =
      outcome_of({ended(0, How::hung, 5, "step 5"), ended(1, How::hung, 5, "step 4")});
  EXPECT_EQ(outcome.symptom(), "hang in step 4");
  EXPECT_EQ(outcome.failed_at(), "step 4");
}

TEST(PhaseOutcomeTest, AnExceptionWithoutWordsIsNamed) {
  EXPECT_EQ(outcome_of({raised(0, 1, "", "AssertionError")}).symptom(), "AssertionError");
}

TEST(PhaseOutcomeTest, SymptomIsOneLine) {
  EXPECT_EQ(outcome_of({raised(0, 1, "two\nlines\n")}).symptom(), "two lines");
}

}  // namespace
}  // namespace resumecheck
