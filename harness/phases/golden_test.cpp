// A golden must say when it is not the scenario's any more, and when somebody edited it; both would
// otherwise turn into a green or a red that means nothing.
#include "harness/phases/golden.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/state/error.h"
#include "harness/state/file.h"

namespace resumecheck {
namespace {

class GoldenTest : public testing::Test {
 protected:
  GoldenTest()
      : root_(std::filesystem::temp_directory_path() /
              ("golden_test_" + std::to_string(getpid()) + "_" +
               testing::UnitTest::GetInstance()->current_test_info()->name())) {
    scenario_.name = "adamw8bit/some_property";
    scenario_.settings.parameters = {{"ffn.up", {4, 2}}};
  }
  ~GoldenTest() override { std::filesystem::remove_all(root_); }

  std::map<std::int64_t, LogicalState> states(std::byte fill) const {
    std::map<std::int64_t, LogicalState> all;
    for (std::int64_t step = 0; step <= scenario_.settings.train_until; ++step) {
      all[step].tensors[{"ffn.up", "param"}] = {Dtype::u8, {4, 2}, 0, Bytes(8, fill)};
      all[step].tensors[{"a/b", "step"}] = {Dtype::u8, {}, 0, Bytes(1, std::byte(step))};
    }
    return all;
  }

  Golden made(std::byte fill = std::byte{1}) {
    Golden golden = make_golden(root_, scenario_, states(fill));
    golden.date = "2025-01-02";
    golden.reason = "first";
    golden.machine = R"({"cpu": "some"})";
    golden.confirmed_on = {{"cpu", "avx2", "2025-01-02", ""}};
    return golden;
  }

  std::string error_of_reading() {
    try {
      read_golden(root_, scenario_);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::harness);
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path root_;
  Scenario scenario_;
};

TEST_F(GoldenTest, ComesBackAsItWasWritten) {
  const Golden golden = made();
  write_golden(golden);
  const auto read = read_golden(root_, scenario_);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->steps, golden.steps);
  EXPECT_EQ(read->digest, golden.digest);
  EXPECT_EQ(read->reason, "first");
  EXPECT_NE(read->machine.find("some"), std::string::npos);
  ASSERT_EQ(read->confirmed_on.size(), 1U);
  EXPECT_EQ(read->confirmed_on[0].isa, "avx2");
  EXPECT_TRUE(differences(golden, *read).empty());
}

TEST_F(GoldenTest, HoldsTheStepsFromTheSaveOn) {
  const Golden golden = made();
  EXPECT_EQ(golden.steps.begin()->first, scenario_.settings.save_after);
  EXPECT_EQ(golden.steps.rbegin()->first, scenario_.settings.train_until);
}

TEST_F(GoldenTest, ThereIsNoneWhereThereIsNoFile) { EXPECT_FALSE(read_golden(root_, scenario_)); }

TEST_F(GoldenTest, OfOtherSettingsNamesTheCommandThatRenewsIt) {
  write_golden(made());
  scenario_.settings.optimizer.eps = 2e-8;
  const std::string error = error_of_reading();
  EXPECT_NE(error.find("resumecheck golden update adamw8bit/some_property"), std::string::npos)
      << error;
  EXPECT_TRUE(read_golden_of_any_settings(root_, scenario_));
}

TEST_F(GoldenTest, EditedByHandIsNotBelieved) {
  const Golden golden = made();
  write_golden(golden);
  std::string text = read_file(golden.file);
  const std::string digest = golden.steps.begin()->second.begin()->second.digest;
  text.replace(text.find(digest), 1, digest[0] == '0' ? "1" : "0");
  write_file(golden.file, text);
  const std::string error = error_of_reading();
  EXPECT_NE(error.find("edited by hand"), std::string::npos) << error;
}

TEST_F(GoldenTest, CutShortNamesTheFile) {
  const Golden golden = made();
  write_golden(golden);
  const std::string text = read_file(golden.file);
  write_file(golden.file, text.substr(0, text.size() / 2));
  EXPECT_NE(error_of_reading().find("some_property.json"), std::string::npos);
}

TEST_F(GoldenTest, OfAnotherScenarioIsAnError) {
  Golden golden = made();
  golden.scenario = "adamw8bit/another";
  write_golden(golden);
  EXPECT_NE(error_of_reading().find("adamw8bit/another"), std::string::npos);
}

TEST_F(GoldenTest, DifferencesComeInOrderOfStepsAndTensors) {
  const auto found = differences(made(std::byte{1}), made(std::byte{2}));
  ASSERT_EQ(found.size(), 4U);  // steps 3 to 6, ffn.up only
  EXPECT_EQ(found[0].step, 3);
  EXPECT_EQ(found[0].key.name, "ffn.up");
}

TEST_F(GoldenTest, ATensorThatIsMissingOrNewIsADifference) {
  Golden fewer = made();
  fewer.steps[4].erase({"a/b", "step"});
  const auto missing = differences(made(), fewer), extra = differences(fewer, made());
  ASSERT_EQ(missing.size(), 1U);
  EXPECT_NE(missing[0].what.find("got nothing"), std::string::npos) << missing[0].what;
  ASSERT_EQ(extra.size(), 1U);
  EXPECT_NE(extra[0].what.find("want nothing"), std::string::npos) << extra[0].what;
}

// Each of these changes the bits, so each must change the digest.
TEST(SettingsDigest, ChangesWithEverythingThatDecidesTheBits) {
  const std::vector<void (*)(Settings&)> changes = {
      [](Settings& s) { s.seed = 2; },
      [](Settings& s) { s.parameters[0].second[0] = 5; },
      [](Settings& s) { s.parameters[0].first = "b"; },
      [](Settings& s) { s.param_dtype = "bf16"; },
      [](Settings& s) { s.optimizer.name = "x"; },
      [](Settings& s) { s.optimizer.profile = "torchao_eager"; },
      [](Settings& s) { s.optimizer.lr = 2e-3; },
      [](Settings& s) { s.optimizer.beta1 = 0.8; },
      [](Settings& s) { s.optimizer.beta2 = 0.8; },
      [](Settings& s) { s.optimizer.eps = 1e-7; },
      [](Settings& s) { s.optimizer.weight_decay = 0; },
      [](Settings& s) { s.optimizer.block = 128; },
      [](Settings& s) { s.optimizer.min_quantised_elements = 1; },
      [](Settings& s) { s.gradients = "model"; },
      [](Settings& s) { s.save_after = 2; },
      [](Settings& s) { s.train_until = 7; },
      [](Settings& s) { s.master_dtype = "fp32"; },
      [](Settings& s) { s.optimizer.profile_after_save = "torchao_eager"; },
      [](Settings& s) { s.optimizer.stochastic_rounding = true; },
      [](Settings& s) { s.model.tied = true; },
      [](Settings& s) { s.model.experts = 2; },
      [](Settings& s) { s.model.dropout = 0.5; },
      [](Settings& s) { s.model.frozen = {"a"}; },
      [](Settings& s) {
        s.optimizer.groups = {{{"a"}, 1e-3, 0}};
      },
      [](Settings& s) { s.optimizer.schedule = "linear_warmup"; },
      [](Settings& s) { s.optimizer.clip_norm = 1; },
      [](Settings& s) { s.loss_scale.initial = 2; },
      [](Settings& s) { s.data = "stream"; },
  };
  Settings settings;
  settings.parameters = {{"a", {4, 2}}};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    Settings changed = settings;
    changes[i](changed);
    EXPECT_NE(settings_digest(changed), settings_digest(settings)) << "change " << i;
  }
  Settings saved_otherwise = settings;
  saved_otherwise.save_format = "dcp";
  saved_otherwise.optimizer.profile_after_save = "canonical";
  EXPECT_EQ(settings_digest(saved_otherwise), settings_digest(settings));
}

// Goldens that were made before there was a choice must stay valid where it is not made.
TEST(SettingsDigest, StaysWhatItWasForWhatCouldBeSaidBefore) {
  Settings settings;
  settings.parameters = {{"a", {4, 2}}};
  EXPECT_EQ(settings_digest(settings), "d2a66370cec6bb6658adea04b514dc68");
}

TEST(SettingsDigest, TheOrderOfParametersCountsWhereAGeneratorIsDrawnFrom) {
  Settings settings, turned;
  settings.parameters = {{"a", {4, 2}}, {"b", {3}}};
  turned.parameters = {{"b", {3}}, {"a", {4, 2}}};
  for (Settings* each : {&settings, &turned}) each->optimizer.stochastic_rounding = true;
  EXPECT_EQ(settings_digest(settings), settings_digest(turned)) << "counted by element";
  for (Settings* each : {&settings, &turned}) each->optimizer.profile = "torchao_eager";
  EXPECT_NE(settings_digest(settings), settings_digest(turned));
}

TEST_F(GoldenTest, VariantsThatComputeOtherBitsHaveFilesOfTheirOwn) {
  scenario_.variant = "adamw4bit,dcp";
  scenario_.choices = {{"optimizer.name", "adamw4bit"}, {"run.save_format", "dcp"}};
  const Golden golden = made();
  EXPECT_EQ(golden.file.filename(), "some_property.adamw4bit.json");
  write_golden(golden);
  EXPECT_EQ(read_golden(root_, scenario_)->digest, golden.digest);
  scenario_.choices[1].second = "full";
  EXPECT_TRUE(read_golden(root_, scenario_)) << "saved otherwise, the same bits";
  scenario_.choices[0].second = "adamwfp8";
  EXPECT_FALSE(read_golden(root_, scenario_));
}

}  // namespace
}  // namespace resumecheck
