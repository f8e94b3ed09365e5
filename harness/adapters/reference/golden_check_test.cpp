// A golden must notice a compiler flag, and say that it was the build and not the golden. The build
// that a careless flag would give is linked in: the kernels with contraction allowed.
#include "harness/adapters/reference/golden_check.h"

#include <gtest/gtest.h>

#include "harness/adapters/reference/reference.h"
#include "harness/adapters/reference/reference_settings.h"
#include "kernels/contracted.h"

namespace resumecheck {
namespace {

class ContractedArithmetic final : public Arithmetic {
 public:
  std::string name() const override { return "contracted"; }
  std::vector<kernels::CutBlock> update(const kernels::QuantisedRun& run,
                                        const OptimizerStep& step) const override {
    return kernels::update_quantised_contracted(run, step_scalars(step.settings, step.number),
                                                step.settings.profile);
  }
  void finish(const kernels::QuantisedRun& run, const kernels::CutBlock& cut) const override {
    host_->finish(run, cut);
  }
  void update(const kernels::PlainRun& run, const OptimizerStep& step) const override {
    host_->update(run, step);
  }

 private:
  std::shared_ptr<const Arithmetic> host_ = host_arithmetic();
};

// The right arithmetic with another learning rate: a formula that was changed.
class ChangedArithmetic final : public Arithmetic {
 public:
  explicit ChangedArithmetic(std::shared_ptr<const Arithmetic> inner) : inner_(std::move(inner)) {}
  std::string name() const override { return inner_->name(); }
  std::vector<kernels::CutBlock> update(const kernels::QuantisedRun& run,
                                        const OptimizerStep& step) const override {
    return inner_->update(run, changed(step));
  }
  void finish(const kernels::QuantisedRun& run, const kernels::CutBlock& cut) const override {
    inner_->finish(run, cut);
  }
  void update(const kernels::PlainRun& run, const OptimizerStep& step) const override {
    inner_->update(run, changed(step));
  }

 private:
  static OptimizerStep changed(OptimizerStep step) {
    step.settings.lr *= 1.5;
    return step;
  }
  std::shared_ptr<const Arithmetic> inner_;
};

class GoldenCheckTest : public testing::Test {
 protected:
  GoldenCheckTest() {
    scenario_.name = "adamw8bit/some_property";
    scenario_.settings = settings_with_every_shape();
    golden_ = make_golden("", scenario_, reference_states(scenario_.settings));
    golden_.machine = R"({"compiler": "the one it was made with"})";
    golden_.date = "2025-01-02";
    golden_.reason = "first";
  }

  GoldenCheck check(const std::vector<std::shared_ptr<const Arithmetic>>& builds) {
    return check_golden(golden_, scenario_, builds, *twin_arithmetic());
  }
  std::string explained(const GoldenCheck& check) {
    return explanation(check, golden_, R"({"compiler": "the one of today", "flags": "-O3"})");
  }

  Scenario scenario_;
  Golden golden_;
};

TEST_F(GoldenCheckTest, EveryInstructionSetGivesTheGolden) {
  const GoldenCheck found = check(host_arithmetics());
  EXPECT_TRUE(found.same()) << explained(found);
  EXPECT_EQ(found.computed.size(), host_arithmetics().size() + 1) << "every build, and the twin";
}

TEST_F(GoldenCheckTest, AContractedBuildDoesNotAndTheBuildIsBlamed) {
  if (!kernels::contracted_available()) GTEST_SKIP() << "needs AVX2 and FMA";
  const GoldenCheck found = check({std::make_shared<ContractedArithmetic>()});
  ASSERT_FALSE(found.same()) << "contraction changed no bit: the test shows nothing";
  EXPECT_NE(found.conclusion().find("the slow twin still gives the golden: this build's compiler "
                                    "flags (it must have -ffp-contract=off)"),
            std::string::npos)
      << found.conclusion();
  const std::string text = explained(found);
  for (const char* part :
       {"DIFFERENT  adamw8bit/some_property", "first is ", "at step 3", "contracted differs",
        "slow twin  gives the golden", "the one of today", "the one it was made with", "-O3"}) {
    EXPECT_NE(text.find(part), std::string::npos) << "no '" << part << "' in\n" << text;
  }
}

TEST_F(GoldenCheckTest, OneBrokenInstructionSetAmongGoodOnesIsNamed) {
  if (!kernels::contracted_available()) GTEST_SKIP() << "needs AVX2 and FMA";
  auto builds = host_arithmetics();
  builds.push_back(std::make_shared<ContractedArithmetic>());
  EXPECT_NE(check(builds).conclusion().find("only contracted differs"), std::string::npos)
      << check(builds).conclusion();
}

TEST_F(GoldenCheckTest, AChangedFormulaIsNotBlamedOnTheBuild) {
  const std::vector<std::shared_ptr<const Arithmetic>> builds = {
      std::make_shared<ChangedArithmetic>(host_arithmetic())};
  const ChangedArithmetic twin(twin_arithmetic());
  const GoldenCheck found = check_golden(golden_, scenario_, builds, twin);
  EXPECT_NE(found.conclusion().find("agree with each other"), std::string::npos)
      << found.conclusion();
}

TEST_F(GoldenCheckTest, AFormulaChangedOnOneSideOnlyIsSaid) {
  const GoldenCheck found =
      check_golden(golden_, scenario_, {std::make_shared<ContractedArithmetic>()},
                   ChangedArithmetic(twin_arithmetic()));
  EXPECT_NE(found.conclusion().find("disagree with each other"), std::string::npos)
      << found.conclusion();
}

}  // namespace
}  // namespace resumecheck
