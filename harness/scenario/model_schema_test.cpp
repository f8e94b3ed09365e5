// A model of a kind has exactly the parameters of its layers, and what [fp8] and [run] ask of it is
// either possible or refused with its place: a key that is read and not obeyed would make a
// scenario claim what it does not test.
#include "harness/scenario/model_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/scenario/scenario.h"
#include "harness/state/expect_error.h"
#include "harness/state/file.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

using testing::ElementsAre;

struct Lines {
  std::string head = "summary = \"a property\"\nadapters = [\"reference\"]\n";  // lines 1, 2
  std::string model = "[model]\nkind = \"layernorm_mlp\"\n";                    // 3, 4
  std::string more;                                                             // from 5
  std::string resume = "[[resume]]\nfrom = \"dp2\"\nonto = [\"dp2\"]\n";
  std::string text() const { return head + model + more + resume; }
};

class ModelSchemaTest : public testing::Test {
 protected:
  std::vector<Scenario> read(const Lines& lines) {
    write_file(folder_ / "x.toml", lines.text());
    return read_scenario(folder_ / "x.toml", folder_.path());
  }
  Settings settings(const std::string& more) {
    Lines lines;
    lines.more = more;
    return read(lines).at(0).settings;
  }
  void refused(const Lines& lines, const std::string& place, const std::string& words) {
    SCOPED_TRACE(lines.text());
    const auto call = [&] { read(lines); };
    expect_error(Error::Kind::usage, {"x.toml" + place}, call);
    expect_error(Error::Kind::usage, {words}, call);
  }
  void refused(const std::string& more, const std::string& place, const std::string& words) {
    Lines lines;
    lines.more = more;
    refused(lines, place, words);
  }

  TemporaryFolder folder_;
};

TEST_F(ModelSchemaTest, AKindHasTheParametersOfItsLayers) {
  Lines lines;
  lines.model += "layers = 2\nwidth = 48\nhidden = 72\n";
  const Settings settings = read(lines).at(0).settings;
  ASSERT_EQ(settings.parameters.size(), 12U);
  EXPECT_EQ(settings.parameters[0].first, "layers.0.norm.weight");
  EXPECT_EQ(settings.parameters[1].first, "layers.0.norm.bias");
  EXPECT_EQ(settings.parameters[2].first, "layers.0.fc1.weight");
  EXPECT_THAT(settings.parameters[2].second, ElementsAre(72, 48));
  EXPECT_THAT(settings.parameters[3].second, ElementsAre(72));
  EXPECT_THAT(settings.parameters[4].second, ElementsAre(48, 72));
  EXPECT_EQ(settings.parameters[11].first, "layers.1.fc2.bias");
  EXPECT_THAT(settings.parameters[11].second, ElementsAre(48));
  EXPECT_EQ(settings.fp8.recipe, "");
}

TEST_F(ModelSchemaTest, SizesMustBeWholeChunks) {
  Lines lines;
  lines.model += "width = 25\n";
  refused(lines, ":5:1", "write a multiple of 24");
  lines.model = "[model]\nkind = \"layernorm_mlp\"\nlayers = 0\n";
  refused(lines, ":5:1", "'layers' is 0");
  lines.model = "[model]\nkind = \"mlp\"\n";
  refused(lines, ":4:1", "'mlp' is no model.kind");
  lines.model = "[model]\nkind = \"layernorm_mlp\"\nembed = [4]\n";
  refused(lines, ":5:1", "unknown key 'model.embed'");
}

TEST_F(ModelSchemaTest, AModelIsNoLargerThanATestNeeds) {
  Lines lines;
  lines.model += "layers = 1\nwidth = 1032\nhidden = 1008\n";  // 1,040,256
  EXPECT_EQ(read(lines).size(), 1U);
  lines.model = "[model]\nkind = \"layernorm_mlp\"\nlayers = 1\nwidth = 1032\nhidden = 1032\n";
  refused(lines, ":3:2", "must be at most 1048576");
}

// Known before anything runs, so an error with its place and no skip for ever.
TEST_F(ModelSchemaTest, AnAdapterThatTakesWholeBlocksRefusesOthers) {
  Lines lines;
  lines.head = "summary = \"a property\"\nadapters = [\"transformer_engine\"]\n";
  lines.model = "[model]\nembed = [64, 64]\n";
  lines.more = "[optimizer]\nname = \"adamw\"\n";
  refused(lines, ":3:2", "cannot train names and shapes");
  const std::string steps = "[run]\ngradients = \"model\"\n[optimizer]\nname = \"adamw\"\n";
  lines.more = steps;
  lines.resume = "[[resume]]\nfrom = \"dp3\"\nonto = [\"dp1\"]\n";
  lines.model = "[model]\nkind = \"layernorm_mlp\"\nwidth = 24\n";
  refused(lines, ":5:1", "multiples of 16, not with 24 width");
  lines.model = "[model]\nkind = \"layernorm_mlp\"\nwidth = 48\nhidden = 72\n";
  refused(lines, ":6:1", "multiples of 16, not with 72 hidden");
  lines.model = "[model]\nkind = \"layernorm_mlp\"\nwidth = 48\nhidden = 96\n";
  EXPECT_EQ(read(lines).size(), 1U);
  lines.resume = "[[resume]]\nfrom = \"dp2\"\nonto = [\"dp2\"]\n";
  refused(lines, ":7:2", "on dp2 a micro-batch has 12");
}

TEST_F(ModelSchemaTest, WhatFp8SaysArrives) {
  const Settings all = settings(
      "[fp8]\namax_history_len = 3\namax_compute_algo = \"most_recent\"\nmargin = -1\n"
      "format = \"e4m3\"\nupdate = \"unfused\"\nreduce_amax = false\n");
  EXPECT_EQ(all.fp8.recipe, "delayed");
  EXPECT_EQ(all.fp8.amax_history_len, 3);
  EXPECT_EQ(all.fp8.amax_compute_algo, "most_recent");
  EXPECT_EQ(all.fp8.margin, -1);
  EXPECT_EQ(all.fp8.format, "e4m3");
  EXPECT_EQ(all.fp8.update, "unfused");
  EXPECT_FALSE(all.fp8.reduce_amax);
  EXPECT_EQ(settings("[fp8]\nrecipe = \"none\"\n").fp8.recipe, "");
  const Settings trained = settings("[run]\ngradients = \"model\"\naccumulate = 3\n");
  EXPECT_EQ(trained.gradients, "model");
  EXPECT_EQ(trained.accumulate, 3);
}

TEST_F(ModelSchemaTest, Fp8StateIsComparedWhereItIsKept) {
  Lines lines;
  EXPECT_THAT(read(lines).at(0).parts, testing::Not(testing::Contains("fp8")));
  lines.more = "[fp8]\n";
  EXPECT_THAT(read(lines).at(0).parts, testing::Contains("fp8"));
  lines.more = "[compare]\nparts = [\"fp8.scale\"]\n";
  refused(lines, ":6:1", "there is no FP8 state without [fp8]");
  lines.more = "[fp8]\n[compare]\nparts = [\"fp8.scale\", \"fp8.amax_history.forward\"]\n";
  EXPECT_EQ(read(lines).at(0).parts.size(), 2U);
  lines.more = "[fp8]\n[compare]\nparts = [\"fp8.scales\"]\n";
  refused(lines, ":7:1", "cannot give the part 'fp8.scales'");
}

TEST_F(ModelSchemaTest, WhatFp8CannotMeanIsRefused) {
  refused("[fp8]\nrecipe = \"delaid\"\n", ":6:1", "did you mean 'delayed'");
  refused("[fp8]\nhistory = 3\n", ":6:1", "unknown key 'fp8.history'");
  refused("[fp8]\namax_history_len = 0\n", ":6:1", "'amax_history_len' is 0");
  refused("[fp8]\nmargin = 101\n", ":6:1", "'margin' is 101");
  refused("[fp8]\nrecipe = \"none\"\nmargin = 1\n", ":7:1", "the recipe is none");
  refused("[fp8]\nrecipe = \"mxfp8\"\n", ":6:1", "adapter reference has no FP8 recipe mxfp8");
  refused("[run]\naccumulate = 2\n", ":6:1", "nothing to accumulate");
  refused("[run]\naccumulate = 25\n", ":6:1", "'accumulate' is 25");
  Lines shapes;
  shapes.model = "[model]\nembed = [48, 24]\n";
  shapes.more = "[fp8]\n";
  refused(shapes, ":5:2", "names and shapes multiply nothing");
  shapes.more = "[run]\ngradients = \"model\"\n";
  refused(shapes, ":6:1", "names and shapes compute no gradients");
}

TEST_F(ModelSchemaTest, AnAdapterThatComputesNoModelIsRefused) {
  Lines lines;
  lines.head = "summary = \"a property\"\nadapters = [\"torchao\"]\n";
  refused(lines, ":4:1", "adapter torchao has no model layernorm_mlp");
  lines.model = "[model]\nembed = [48, 24]\n";
  lines.more = "[run]\ngradients = \"model\"\n";
  refused(lines, ":6:1", "names and shapes compute no gradients");
}

TEST_F(ModelSchemaTest, PerRankScalesStayOnTheirMesh) {
  Lines lines;
  lines.more = "[fp8]\nreduce_amax = false\n";
  EXPECT_EQ(read(lines).size(), 1U);
  lines.resume = "[[resume]]\nfrom = \"dp2\"\nonto = [\"dp2\", \"dp1\"]\n";
  refused(lines, ":6:1", "dp2 -> dp1");
  lines.resume = "[[resume]]\nfrom = \"dp2\"\nonto = [\"dp2\"]\n";
  lines.more += "[run]\ngradients = \"model\"\n";
  refused(lines, ":6:1", "different scales");
  lines.more = "[fp8]\nreduce_amax = false\n[compare]\noracles = [\"golden\"]\n";
  refused(lines, ":6:1", "one rank's scales");
}

TEST_F(ModelSchemaTest, WhatFp8SaysCanVary) {
  Lines lines;
  lines.more =
      "[vary]\n\"fp8.amax_history_len\" = [1, 16]\n\"fp8.recipe\" = [\"delayed\", \"none\"]\n";
  refused(lines, ":6:", "the recipe is none");
  lines.more =
      "[vary]\n\"fp8.amax_history_len\" = [1, 16]\n\"fp8.update\" = "
      "[\"fused\", \"unfused\"]\n";
  const std::vector<Scenario> variants = read(lines);
  ASSERT_EQ(variants.size(), 4U);
  EXPECT_EQ(variants[1].variant, "1,unfused");
  EXPECT_EQ(variants[1].settings.fp8.update, "unfused");
}

}  // namespace
}  // namespace resumecheck
