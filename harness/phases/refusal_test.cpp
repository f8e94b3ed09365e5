// A refusal is the one property that a failure proves, so a test of it must not take any failure
// for the right one, nor silence.
#include "harness/phases/refusal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace resumecheck {
namespace {

using testing::HasSubstr;

LogicalState state_of(float value) {
  LogicalState state;
  LogicalTensor tensor;
  tensor.shape = {1};
  tensor.bytes.resize(sizeof value);
  std::memcpy(tensor.bytes.data(), &value, sizeof value);
  state.tensors[{"embed", "param"}] = tensor;
  return state;
}

class Refusal : public testing::Test {
 protected:
  CaseResult judged(const std::string& failed_at, const std::string& symptom) {
    RefusalEvidence evidence;
    evidence.wanted = wanted_;
    evidence.failed_at = failed_at;
    evidence.symptom = symptom;
    evidence.raised = raised_;
    evidence.fresh = &fresh_;
    evidence.at_save = &at_save_;
    evidence.parts = {"param"};
    evidence.train_until = 6;
    CaseResult result;
    judge_refusal(evidence, result);
    return result;
  }
  std::string wanted_ = "load: cannot slice";
  bool raised_ = true;
  LogicalState fresh_ = state_of(1), at_save_ = state_of(2);
};

TEST_F(Refusal, TheFailureThatIsAskedForPasses) {
  const CaseResult result = judged("load", "Traceback ... ValueError: cannot slice 3 of 256");
  EXPECT_EQ(result.verdict, Verdict::pass) << "frameworks put a traceback before their words";
  const CaseResult exact = judged("load", "cannot slice 3 of 256");
  EXPECT_EQ(exact.verdict, Verdict::pass);
  EXPECT_EQ(exact.oracles.at("refusal"), "pass");
  EXPECT_EQ(exact.symptom, "");
  EXPECT_THAT(exact.notes, testing::Contains("refused: load: cannot slice 3 of 256"));
}

TEST_F(Refusal, AnotherFailureIsNoRefusal) {
  for (const char* at : {"load", "step 4"}) {
    const CaseResult result = judged(at, "out of memory");
    EXPECT_EQ(result.verdict, Verdict::fail);
    EXPECT_EQ(result.failed_at, at);
    EXPECT_EQ(result.symptom, std::string("was not refused: ") + at + ": out of memory");
    EXPECT_EQ(result.oracles.at("refusal"), "fail");
  }
  EXPECT_EQ(judged("step 4", "cannot slice").verdict, Verdict::fail) << "too late";
}

TEST_F(Refusal, ThePlaceIsNotReadOutOfAMessage) {
  wanted_ = "load: ";
  EXPECT_EQ(judged("step 4", "failed to load: no such file").verdict, Verdict::fail);
  EXPECT_EQ(judged("load", "no such file").verdict, Verdict::pass);
}

TEST_F(Refusal, WhatNobodyRaisedIsNoRefusal) {
  raised_ = false;
  const CaseResult result = judged("load", "cannot slice");
  EXPECT_EQ(result.verdict, Verdict::fail);
  EXPECT_EQ(result.symptom, "was not refused: load: cannot slice");
}

TEST_F(Refusal, SilenceIsAFailure) {
  const CaseResult result = judged("", "");
  EXPECT_EQ(result.verdict, Verdict::fail);
  EXPECT_EQ(result.failed_at, "load");
  EXPECT_EQ(result.symptom, "was not refused: it loaded and trained to step 6");
}

TEST_F(Refusal, OfAFreshStateItSaysNothing) {
  at_save_ = fresh_;
  const CaseResult result = judged("load", "cannot slice");
  EXPECT_EQ(result.verdict, Verdict::vacuous);
  EXPECT_THAT(result.reason, HasSubstr("train before the save"));
}

}  // namespace
}  // namespace resumecheck
