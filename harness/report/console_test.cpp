// The failure block is what an engineer reads at night: this holds it to the letter, and holds that
// nothing a framework prints can disturb the terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/report/example_result.h"
#include "harness/report/printable_text.h"
#include "harness/report/report.h"

namespace resumecheck {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(FailureBlock, ReadsAsTheDesignShows) {
  EXPECT_EQ(
      failure_block(example_failure(), false),
      R"(FAIL  adamw8bit/moments_survive_dp_shrink[reference,dp4->dp2]   after load, before step 4
  moment2.scale of ffn.up: 3 of 24 blocks differ; first is block 17 (elements 4352..4607)
    want 0x3d1c4321  0.03815     saved by rank 2 of dp4
    got  0x3d1c0000  0.0380859   held by rank 1 of dp2
  fits: rounded through bf16 (3 of 3).   does not fit: fresh start, one step stale, another rank's shard, requantised
  same everywhere else: param 3/3, codes 6/6, codebook 6/6, step 3/3
  again: resumecheck run 'adamw8bit/moments_survive_dp_shrink[reference,dp4->dp2]'
  state: out/artifacts/x/want.safetensors  out/artifacts/x/got.safetensors
)");
}

TEST(FailureBlock, SaysWhatElseDiffers) {
  CaseResult result = example_failure();
  result.parts["moment2.scale"] = {1, 3};
  result.parts["param"] = {0, 3};
  EXPECT_THAT(failure_block(result, false),
              HasSubstr("  differ too: param 3 of 3, scale 1 of 6\n"));
}

TEST(FailureBlock, Fp8StateIsToldAsSuch) {
  CaseResult result = example_failure();
  result.first_difference->key.part = "fp8.scale.backward";
  result.parts = {{"moment2.scale", {1, 3}},
                  {"fp8.scale.backward", {1, 2}},
                  {"fp8.scale.forward", {0, 2}},
                  {"fp8.recipe", {2, 2}}};
  const std::string block = failure_block(result, false);
  EXPECT_THAT(block, HasSubstr("  differ too: scale 2 of 3, fp8.scale 2 of 4\n"));
  EXPECT_THAT(block, HasSubstr("  same everywhere else: fp8.recipe 2/2\n"));
}

TEST(FailureBlock, ElementsAreToldWhereThereAreNoBlocks) {
  CaseResult result = example_failure();
  Difference& d = *result.first_difference;
  d.key = {"norm", "moment1.values"};
  d.block = d.blocks = d.differing_blocks = 0;
  d.first_block = -1;
  d.elements = 512;
  d.differing = 1;
  d.first_index = 300;
  d.largest_ulp = 2;
  EXPECT_THAT(
      failure_block(result, false),
      HasSubstr("  moment1.values of norm: 1 of 512 elements differs; first is element 300; "
                "at most 2 ulp apart\n"));
}

TEST(FailureBlock, TheLastBlockMayBeShort) {
  CaseResult result = example_failure();
  Difference& d = *result.first_difference;
  d.key.part = "moment2.codes";
  d.elements = 4400;
  d.blocks = 18;
  EXPECT_THAT(failure_block(result, false), HasSubstr("(elements 4352..4399)"));
}

TEST(FailureBlock, OtherKindsOfDifferenceAreTold) {
  CaseResult result = example_failure();
  const std::pair<Difference::Kind, const char*> kinds[] = {
      {Difference::Kind::missing, "moment2.scale of ffn.up is missing"},
      {Difference::Kind::extra, "is there and should not be"},
      {Difference::Kind::dtype, "has another dtype"},
      {Difference::Kind::shape, "has another shape"},
      {Difference::Kind::block, "has another block size"},
      {Difference::Kind::storage_width, "has another storage width"},
      {Difference::Kind::value, "value ffn.up differs"}};
  for (const auto& [kind, words] : kinds) {
    result.first_difference->kind = kind;
    EXPECT_THAT(failure_block(result, false), HasSubstr(words));
  }
}

TEST(FailureBlock, AnExceptionIsItsOwnLine) {
  CaseResult result = result_of_verdict("a/b[torchao@x,dp2->dp2]", Verdict::fail);
  result.failed_at = "step 4";
  result.symptom = "expected dtype torch.bfloat16\nsecond line";
  result.notes = {"DTensor says bf16"};
  EXPECT_EQ(failure_block(result, false),
            "FAIL  a/b[torchao@x,dp2->dp2]   step 4\n"
            "  expected dtype torch.bfloat16 second line\n"
            "  note: DTensor says bf16\n");
}

TEST(FailureBlock, OtherVerdictsSayWhy) {
  CaseResult vacuous = result_of_verdict("a/b[x]", Verdict::vacuous);
  vacuous.reason = "every moment is zero";
  EXPECT_EQ(failure_block(vacuous, false), "VACUOUS  a/b[x]\n  every moment is zero\n");
  CaseResult xpass = result_of_verdict("a/b[x]", Verdict::xpass);
  xpass.known_broken = "o/r#1";
  EXPECT_THAT(failure_block(xpass, false), HasSubstr("remove its [[known_broken]] mark"));
  EXPECT_THAT(failure_block(xpass, false), HasSubstr("known: o/r#1"));
}

TEST(Console, OneLineACase) {
  CaseResult pass = result_of_verdict("a/b[x]", Verdict::pass);
  pass.seconds = 1.234;
  EXPECT_EQ(console_line(pass, false), "PASS    a/b[x]  1.2 s");
  CaseResult xfail = result_of_verdict("a/b[x]", Verdict::xfail);
  xfail.known_broken = "pytorch/ao#3314";
  xfail.failed_at = "step 4";
  xfail.symptom = "expected\ndtype";
  EXPECT_EQ(console_line(xfail, false),
            "XFAIL   a/b[x]  1.0 s  pytorch/ao#3314: step 4: expected dtype");
  CaseResult skip = result_of_verdict("a/b[x]", Verdict::skip);
  skip.reason = "not made: tools/environments make x";
  EXPECT_THAT(console_line(skip, false), HasSubstr("not made: tools/environments make x"));
}

TEST(Console, ColourOnlyWhereAsked) {
  for (const CaseResult& result : {example_failure(), full_result()}) {
    EXPECT_THAT(console_line(result, false) + failure_block(result, false), Not(HasSubstr("\x1b")));
    EXPECT_THAT(console_line(result, true), HasSubstr("\x1b["));
    EXPECT_THAT(failure_block(result, true), HasSubstr("\x1b["));
  }
}

TEST(Console, NothingAFrameworkSaysReachesTheTerminalRaw) {
  CaseResult result = full_result();
  const std::string hostile = "\x1b[2J\x07\xff\r\nFAIL  forged[x]";
  for (std::string* text : {&result.symptom, &result.reason, &result.known_broken, &result.again,
                            &result.failed_at, &result.name, &result.want_file,
                            &result.first_difference->want, &result.first_difference->key.name}) {
    *text += hostile;
  }
  result.notes.push_back(hostile);
  result.holders[0] += hostile;
  result.stand_ins[0] += hostile;
  result.diagnosis.fits[0].detail += hostile;
  result.diagnosis.does_not_fit[0] += hostile;
  for (const std::string& text : {console_line(result, false), failure_block(result, false),
                                  summary_table({result}, false)}) {
    EXPECT_EQ(printable(text, true), text);
    EXPECT_THAT(text, Not(HasSubstr("\nFAIL  forged")));
  }
}

}  // namespace
}  // namespace resumecheck
