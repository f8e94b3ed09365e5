// The schema is strict so that no scenario can claim what it does not test: each mistake here must
// be refused with the file and line that the author has open, in all three carriers, and what is
// accepted must arrive as it was written.
#include "harness/scenario/scenario.h"

#include <gtest/gtest.h>

#include "harness/state/expect_error.h"
#include "harness/state/file.h"
#include "harness/state/temporary_folder.h"

namespace resumecheck {
namespace {

using Kind = Error::Kind;

// A whole scenario, line by line; each test changes what it is about.
struct Lines {
  std::string head = "summary = \"a property\"\n";        // line 1
  std::string adapters = "adapters = [\"reference\"]\n";  // line 2
  std::string more;                                       // from line 3
  std::string model = "[model]\nembed = [512, 256]\n";
  std::string tables;
  std::string resume = "[[resume]]\nfrom = \"dp4\"\nonto = [\"dp4\", \"dp2\"]\n";
  std::string text() const { return head + adapters + more + model + tables + resume; }
};

class ScenarioTest : public testing::Test {
 protected:
  Scenario read(const std::string& text, const std::string& name = "adamw8bit/x.toml") {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    write_file(folder_.path() / name, text);
    return read_scenario(folder_.path() / name, folder_.path()).at(0);
  }
  void refused(const Lines& lines, const std::string& place, const std::string& words) {
    refused_text(lines.text(), place, words);
  }
  void refused_text(const std::string& text, const std::string& place, const std::string& words,
                    const std::string& name = "adamw8bit/x.toml") {
    SCOPED_TRACE(text);
    const auto call = [&] { read(text, name); };
    expect_error(Kind::usage, {name + place}, call);
    expect_error(Kind::usage, {words}, call);
  }

  TemporaryFolder folder_;
};

TEST_F(ScenarioTest, DefaultsAreThoseOfTheTable) {
  const Scenario scenario = read(Lines().text());
  EXPECT_EQ(scenario.name, "adamw8bit/x");
  EXPECT_EQ(scenario.carrier, "toml");
  EXPECT_EQ(scenario.summary, "a property");
  EXPECT_EQ(scenario.parts,
            (std::vector<std::string>{"param", "moment1", "moment2", "step", "lr"}));
  EXPECT_EQ(scenario.oracles, (std::vector<std::string>{"after_load", "trajectory"}));
  const Settings& settings = scenario.settings;
  EXPECT_EQ(settings.seed, 1U);
  EXPECT_EQ(settings.param_dtype, "fp32");
  EXPECT_EQ(settings.optimizer.name, "adamw8bit");
  EXPECT_EQ(settings.optimizer.profile, "canonical");
  EXPECT_EQ(settings.optimizer.lr, 1e-3);
  EXPECT_EQ(settings.optimizer.beta1, 0.9);
  EXPECT_EQ(settings.optimizer.beta2, 0.999);
  EXPECT_EQ(settings.optimizer.eps, 1e-8);
  EXPECT_EQ(settings.optimizer.weight_decay, 0.01);
  EXPECT_EQ(settings.optimizer.block, 256);
  EXPECT_EQ(settings.optimizer.min_quantised_elements, 4096);
  EXPECT_EQ(settings.gradients, "order_free");
  EXPECT_EQ(settings.save_after, 3);
  EXPECT_EQ(settings.train_until, 6);
  EXPECT_EQ(settings.save_format, "");
  ASSERT_EQ(scenario.resumes.size(), 1U);
  EXPECT_EQ(scenario.resumes[0].from.text(), "dp4");
  EXPECT_EQ(scenario.resumes[0].onto[1].text(), "dp2");
}

TEST_F(ScenarioTest, EveryKeyArrivesAsWritten) {
  const Scenario scenario = read(R"(summary = "s"
origin = ["pytorch/ao#3314"]
labels = ["quick", "adamw8bit"]
adapters = ["torchao"]
param_dtype = "bf16"
seed = 7
requires = ["cuda", "torch >= '2.8'"]
[adapter_options.torchao]
wrap = "fsdp2"
[model]
zeta = [8, 256]
"ffn.up" = [16]
alpha = [2, 3, 4]
[optimizer]
name = "adamw8bit"
profile = "torchao_eager"
profile_after_save = "torchao_compiled"
stochastic_rounding = true
lr = 1
betas = [0.5, 0]
block = 64
eps = 1e-6
weight_decay = 0.0
[run]
gradients = "order_free"
save_after = 1
train_until = 2
[[resume]]
from = "dp2"
onto = ["dp2"]
save_env = "torch-2.8"
load_env = "torch-2.15"
[compare]
parts = ["moment1.codes", "step", "rng"]
oracles = ["trajectory"]
exactness = "bits"
[[fault]]
name = "kill_rank"
rank = 1
at = "save_run step 2"
[[fault]]
name = "truncate_checkpoint"
[[known_broken]]
when = "torchao < '0.17.0'"
symptom = "step 4: x"
origin = "pytorch/ao#3314"
)");
  EXPECT_EQ(scenario.origin, std::vector<std::string>{"pytorch/ao#3314"});
  EXPECT_EQ(scenario.labels, (std::vector<std::string>{"quick", "adamw8bit"}));
  EXPECT_EQ(scenario.adapter_options.at("torchao").at("wrap"), Value(std::string("fsdp2")));
  EXPECT_EQ(scenario.requirements, (std::vector<std::string>{"cuda", "torch >= '2.8'"}));
  const Settings& settings = scenario.settings;
  EXPECT_EQ(settings.seed, 7U);
  EXPECT_EQ(settings.param_dtype, "bf16");
  EXPECT_EQ(settings.optimizer.profile, "torchao_eager");
  EXPECT_EQ(settings.optimizer.profile_after_save, "torchao_compiled");
  EXPECT_TRUE(settings.optimizer.stochastic_rounding);
  EXPECT_EQ(settings.optimizer.block, 64);
  EXPECT_EQ(settings.optimizer.lr, 1.0);
  EXPECT_EQ(settings.optimizer.beta1, 0.5);
  EXPECT_EQ(settings.optimizer.beta2, 0.0);
  EXPECT_EQ(settings.optimizer.eps, 1e-6);
  EXPECT_EQ(settings.optimizer.weight_decay, 0.0);
  EXPECT_EQ(settings.save_after, 1);
  EXPECT_EQ(settings.train_until, 2);
  const std::vector<std::pair<std::string, Shape>> parameters = {
      {"zeta", {8, 256}}, {"ffn.up", {16}}, {"alpha", {2, 3, 4}}};
  EXPECT_EQ(settings.parameters, parameters) << "parameters keep the order of the file";
  EXPECT_EQ(scenario.resumes[0].save_env, "torch-2.8");
  EXPECT_EQ(scenario.resumes[0].load_env, "torch-2.15");
  EXPECT_EQ(scenario.parts, (std::vector<std::string>{"moment1.codes", "step", "rng"}));
  EXPECT_EQ(scenario.oracles, std::vector<std::string>{"trajectory"});
  ASSERT_EQ(scenario.faults.size(), 2U);
  EXPECT_EQ(scenario.faults[0].name, "kill_rank");
  EXPECT_EQ(scenario.faults[0].rank, 1);
  EXPECT_EQ(scenario.faults[0].at, "save_run step 2");
  EXPECT_FALSE(scenario.faults[1].rank.has_value());
  ASSERT_EQ(scenario.known_broken.size(), 1U);
  EXPECT_EQ(scenario.known_broken[0].symptom, "step 4: x");
  EXPECT_NE(scenario.known_broken[0].where.find("x.toml:43"), std::string::npos)
      << scenario.known_broken[0].where;
}

TEST_F(ScenarioTest, UnknownKeysNameTheNearestKnownOne) {
  Lines lines;
  lines.more = "lables = [\"quick\"]\n";
  refused(lines, ":3:1", "unknown key 'lables'; did you mean 'labels'?");
  const std::pair<const char*, const char*> tables[] = {
      {"[optimizer]\nweight_deacy = 1\n", "did you mean 'weight_decay'?"},
      {"[run]\nsave_afer = 1\n", "did you mean 'save_after'?"},
      {"[compare]\npart = [\"param\"]\n", "did you mean 'parts'?"},
      {"[[fault]]\nnmae = \"kill_rank\"\n", "did you mean 'name'?"},
      {"[[known_broken]]\nwehn = \"x\"\n", "did you mean 'when'?"},
      {"[adapter_options.refrence]\nx = 1\n", "did you mean 'reference'?"}};
  for (const auto& [table, words] : tables) {
    Lines each;
    each.tables = table;
    refused(each, std::string(table).find("options") == std::string::npos ? ":6:1" : ":5:", words);
  }
  Lines resume;
  resume.resume += "form = \"dp2\"\n";
  refused(resume, ":8:1", "did you mean 'from'?");
}

TEST_F(ScenarioTest, WhatIsNotBuiltYetIsRefusedNotIgnored) {
  const char* tables[] = {"[compare]\nexactness = \"distance\"\n",
                          "[run]\ngradients = \"order_pinned\"\n"};
  for (const char* table : tables) {
    Lines lines;
    lines.tables = table;
    refused(lines, ":6:1", "is not supported yet");
  }
  Lines adapter;
  adapter.adapters = "adapters = [\"libtorch\"]\n";
  refused(adapter, ":2:13", "libtorch");
}

TEST_F(ScenarioTest, WhatARunKeepsBesideParametersIsCheckedWhereItStands) {
  const std::pair<const char*, const char*> tables[] = {
      {"[optimizer]\nschedule = \"cosine\"\n", "is no optimizer schedule"},
      {"[optimizer]\nschedule = \"linear_warmup\"\n", "schedule has no length"},
      {"[optimizer]\nschedule_steps = 4\n", "belongs to no schedule"},
      {"[optimizer]\nclip_norm = 0\n", "'clip_norm' is 0"},
      {"[optimizer]\ngroups = []\n", "'groups' is empty"},
      {"[[optimizer.groups]]\nparameters = [\"nobody.*\"]\n", "fits no parameter"},
      {"[loss_scale]\ninitial = 1000\n", "is no power of two"},
      {"[run]\ndata = \"stream\"\n", "injected gradients come from no data"},
      {"[compare]\nparts = [\"scheduler\"]\n", "none without optimizer.schedule"},
      {"[compare]\nparts = [\"loss_scaler\"]\n", "none without [loss_scale]"}};
  for (const auto& [table, words] : tables) {
    Lines lines;
    lines.tables = table;
    refused(lines, "", words);
  }
}

TEST_F(ScenarioTest, TypesAndRangesAreChecked) {
  const std::pair<const char*, const char*> tables[] = {
      {"[optimizer]\nlr = \"big\"\n", "must be a real number, not a text"},
      {"[optimizer]\nlr = -1.0\n", "outside its range"},
      {"[optimizer]\nlr = inf\n", "outside its range"},
      {"[optimizer]\nlr = nan\n", "outside its range"},
      {"[optimizer]\nbetas = [0.9]\n", "must be two numbers"},
      {"[optimizer]\nbetas = [0.9, 1.0]\n", "less than 1"},
      {"[optimizer]\nbetas = [-0.1, 0.9]\n", "at least 0"},
      {"[optimizer]\nblock = 0\n", "'block' is 0"},
      {"[optimizer]\nblock = 1.5\n", "must be an integer"},
      {"[optimizer]\nname = \"adam8bit\"\n", "did you mean 'adamw8bit'?"},
      {"[optimizer]\nname = \"sgd\"\n", "has no optimizer sgd"},
      {"[run]\nsave_after = 0\n", "'save_after' is 0"},
      {"[run]\ntrain_until = 3\n", "not behind save_after"},
      {"[run]\nsave_after = 6\n", "not behind save_after"},
      {"[run]\nsave_format = \"dcp\"\n", "save_format of adapter reference"},
      {"[run]\ngradients = \"order_fre\"\n", "did you mean 'order_free'?"},
      {"[compare]\nparts = []\n", "'parts' is empty"},
      {"[compare]\nparts = [\"param\", \"param\"]\n", "stands twice"},
      {"[compare]\nparts = [\"moment3\"]\n", "did you mean 'moment1'?"},
      {"[compare]\nparts = [\"fp8.scales\"]\n", "cannot give the part"},
      {"[compare]\noracles = [\"afterload\"]\n", "did you mean 'after_load'?"},
      {"[compare]\noracles = []\n", "nothing would be compared"},
      {"[[fault]]\nname = \"kill_rnak\"\nat = \"save\"\n", "did you mean 'kill_rank'?"},
      {"[[fault]]\nname = \"kill_rank\"\n", "'at' is missing"},
      {"[[fault]]\nname = \"kill_rank\"\nat = \"step\"\n", "no moment"},
      {"[[fault]]\nname = \"kill_rank\"\nrank = 4\nat = \"save\"\n", "has a rank 4"},
      {"[[fault]]\nname = \"zero_moments\"\nat = \"save\"\n", "has no moment of its own"},
      {"[fault]\nname = \"zero_moments\"\n", "write [[fault]]"},
      {"[adapter_options.reference]\nwrap = \"none\"\n", "has no option 'wrap'"}};
  for (const auto& [table, words] : tables) {
    Lines lines;
    lines.tables = table;
    refused(lines, ":", words);
  }
  Lines label;
  label.more = "labels = [\"quik\"]\n";
  refused(label, ":3:11", "did you mean 'quick'?");
  Lines seed;
  seed.more = "seed = -1\n";
  refused(seed, ":3:1", "'seed' is -1");
  Lines required;
  required.more = "requires = [\"cudaa\"]\n";
  refused(required, ":3:13", "did you mean 'cuda'?");
  required.more = "requires = [\"torch >> '2'\"]\n";
  refused(required, ":3", "column 8");
}

TEST_F(ScenarioTest, ModelsMustHaveShapes) {
  const std::pair<const char*, const char*> models[] = {
      {"[model]\n", "[model] has no parameter"},
      {"[model]\na = []\n", "no dimension"},
      {"[model]\na = [0]\n", "'a' is 0"},
      {"[model]\na = [4.5]\n", "must be an integer"},
      {"[model]\na = [2147483648, 2147483648, 4]\n", "larger than a test needs"},
      {"[model]\na.b = [4]\n", "quote the whole name"},
      {"[model]\n\"a b\" = [4]\n", "without blanks"},
      {"[model]\n\"a/b\" = [4]\n", "and '/'"},
      {"model = 3\n", "must be a table"}};
  for (const auto& [model, words] : models) {
    Lines lines;
    lines.model = model;
    refused(lines, ":", words);
  }
}

TEST_F(ScenarioTest, ResumesInARowMustFit) {
  Lines lines;
  lines.tables = "[run]\nsave_after = 3\ntrain_until = 6\nresumes = 3\n";
  EXPECT_EQ(read(lines.text()).settings.resumes, 3);
  lines.tables = "[run]\nsave_after = 3\ntrain_until = 5\nresumes = 3\n";
  refused(lines, ":8:1", "train until 6");
  lines.tables = "[run]\nresumes = 5\n";
  refused(lines, ":6:1", "write 1 to 4");
}

TEST_F(ScenarioTest, MeshesMustFit) {
  const std::pair<const char*, const char*> resumes[] = {
      {"[[resume]]\nfrom = \"dp16\"\nonto = [\"dp1\"]\n", ":6:1"},
      {"[[resume]]\nfrom = \"dp1\"\nonto = [\"rep4dp4\"]\n", ":7:9"},
      {"[[resume]]\nfrom = \"dp1\"\nonto = []\n", ":7:1"},
      {"[[resume]]\nfrom = \"dp1\"\nonto = \"dp1\"\n", ":7:1"},
      {"[[resume]]\nonto = [\"dp1\"]\n", ":5:"},
      {"[[resume]]\nfrom = \"dp1\"\n", ":5:"},
      {"[[resume]]\nfrom = \"dp1\"\nonto = [\"dp2\", \"dp2\"]\n", ":7:"},
      {"[[resume]]\nfrom = \"dp1\"\nonto = [\"dp2\"]\n[[resume]]\nfrom = \"dp1\"\nonto = "
       "[\"dp2\"]\n",
       ":10:9"},
      {"[[resume]]\nfrom = \"dp2tp2\"\nonto = [\"dp2\"]\n", ":6:1"},
      {"[[resume]]\nfrom = \"dp1\"\nonto = [\"dp1\"]\nsave_env = \"a\"\n", ":8:1"},
      {"resume = []\n", ":"}};
  for (const auto& [resume, place] : resumes) {
    Lines lines;
    lines.resume = resume;
    refused(lines, place, "");
  }
  Lines later;
  later.resume = "[[resume]]\nfrom = \"dp2tp2\"\nonto = [\"dp2\"]\n";
  refused(later, ":6:1", "names and shapes have no tp");
}

TEST_F(ScenarioTest, AModelLimitsItsMeshes) {
  const auto asks = [&](const std::string& model, const std::string& mesh) {
    Lines lines;
    lines.model = "[model]\nkind = \"layernorm_mlp\"\n" + model;
    lines.tables = "[run]\ngradients = \"model\"\n";
    lines.resume = "[[resume]]\nfrom = \"" + mesh + "\"\nonto = [\"dp2\"]\n";
    return lines;
  };
  for (const char* mesh : {"tp2", "tp8", "dp2tp2", "pp2", "cp3", "tp2dp2pp2"}) {
    EXPECT_EQ(read(asks("", mesh).text()).resumes[0].from.text(), mesh);
  }
  EXPECT_EQ(read(asks("experts = 3\n", "ep3").text()).settings.parameters.size(), 2U * 14);
  refused(asks("", "tp5"), ":8:1", "tp5 does not divide the 24 chunks");
  refused(asks("", "pp3"), ":8:1", "3 stages have only 2 layers among them; write layers = 3");
  refused(asks("", "ep2"), ":8:1", "write experts = 4");
  refused(asks("experts = 3\n", "ep4"), ":9:1", "ep4 has only 3 experts to divide");
  refused(asks("experts = 2\ntied = true\n", "dp2"), ":6:1", "not tied");
  Lines scaled = asks("experts = 2\n", "dp2");
  scaled.tables += "[fp8]\namax_history_len = 2\n";
  refused(scaled, ":8:2", "scales are a layer's");
}

TEST_F(ScenarioTest, SeveralMeshesMaySaveInOneEntry) {
  Lines lines;
  lines.resume = "[[resume]]\nfrom = [\"dp2\", \"dp4\"]\nonto = [\"dp1\", \"dp2\"]\n";
  const Scenario scenario = read(lines.text());
  ASSERT_EQ(scenario.resumes.size(), 2U);
  EXPECT_EQ(scenario.resumes[1].from.text(), "dp4");
  EXPECT_EQ(scenario.resumes[1].onto.size(), 2U);
  lines.resume += "[[resume]]\nfrom = \"dp4\"\nonto = [\"dp2\"]\n";
  refused(lines, ":10:9", "dp4 -> dp2 stands twice");
  lines.resume = "[[resume]]\nfrom = [\"dp2\", \"tp2\"]\nonto = [\"dp1\"]\n";
  refused(lines, ":6:1", "names and shapes have no tp");
  lines.resume = "[[resume]]\nfrom = []\nonto = [\"dp1\"]\n";
  refused(lines, ":6:1", "'from' is empty");
}

TEST_F(ScenarioTest, AdaptersLimitWhatAScenarioMayAsk) {
  Lines lines;
  lines.adapters = "adapters = [\"torchao\"]\n";
  lines.tables = "[adapter_options.torchao]\nwrap = \"none\"\n";
  refused(lines, ":8:1", "plain tensors on one rank");
  lines.tables = "[adapter_options.torchao]\nwrap = \"fsdp3\"\n";
  refused(lines, ":6:1", "did you mean 'fsdp2'?");
  lines.tables = "[run]\nsave_format = \"state_dict\"\n";
  refused(lines, ":9:16", "loaded by the ranks that saved");
  lines.tables = "[run]\nsave_format = \"torch_save\"\n";
  refused(lines, ":9:16", "loaded by the ranks that saved");
  lines.tables = "[run]\nsave_format = \"dpc\"\n";
  refused(lines, ":6:1", "did you mean 'dcp'?");
  lines.tables = "[optimizer]\nmin_quantised_elements = 1\n";
  refused(lines, ":6:1", "torchao always decides at 4096");
  lines.tables = "[[fault]]\nname = \"zero_moments\"\n";
  refused(lines, ":6:1", "adapter torchao has no defect");
  lines.tables = "";
  lines.adapters = "adapters = [\"torcha\"]\n";
  refused(lines, ":2:13", "did you mean 'torchao'?");
  lines.adapters = "adapters = []\n";
  refused(lines, ":2:1", "nobody would run it");
}

TEST_F(ScenarioTest, BlocksAreThoseOfTheOptimizer) {
  Lines lines;
  lines.adapters = "adapters = [\"reference\", \"torchao\"]\n";
  const std::pair<const char*, std::int64_t> blocks[] = {
      {"name = \"adamw4bit\"\n", 128},
      {"name = \"adamwfp8\"\n", 256},
      {"name = \"adamw8bit\"\n", 256},
      {"name = \"adamw4bit\"\nblock = 64\n", 64},
      {"block = 64\nname = \"adamw4bit\"\n", 64}};
  for (const auto& [keys, block] : blocks) {
    lines.tables = std::string("[optimizer]\n") + keys;
    EXPECT_EQ(read(lines.text()).settings.optimizer.block, block) << keys;
  }
  lines.tables = "[optimizer]\nname = \"adamw\"\nblock = 64\n";
  refused(lines, ":7:1", "adamw quantises nothing, so it has no blocks");
  lines.tables = "[optimizer]\nname = \"adamw4bit\"\nblock = 65\n";
  refused(lines, ":7:1", "a block of 65 would end inside one; write an even block");
}

TEST_F(ScenarioTest, StochasticRoundingIsOfBf16AndOfTheSameMeshWhereAGeneratorDraws) {
  const std::string rounding = "[optimizer]\nstochastic_rounding = true\n";
  Lines lines;
  lines.tables = rounding;
  refused(lines, ":6:1", "only bf16 parameters");
  lines.more = "param_dtype = \"bf16\"\n";
  EXPECT_TRUE(read(lines.text()).settings.optimizer.stochastic_rounding);
  EXPECT_EQ(read(lines.text()).parts,
            (std::vector<std::string>{"param", "moment1", "moment2", "step", "lr"}))
      << "what counts keeps no generator";
  lines.tables = rounding + "profile = \"torchao_eager\"\n";
  refused(lines, ":7:1", "dp4 -> dp2 cannot round alike; resume onto the same mesh");
  lines.tables = rounding + "profile = \"torchao_compiled\"\n";
  refused(lines, ":7:1", "which no reference models; use torchao_eager");
  lines.tables = rounding + "profile_after_save = \"torchao_eager\"\n";
  refused(lines, ":8:1", "canonical and torchao_eager are two formulas");
  lines.tables = rounding + "profile = \"torchao_eager\"\n";
  lines.resume = "[[resume]]\nfrom = \"dp2\"\nonto = [\"dp2\"]\n";
  EXPECT_EQ(read(lines.text()).parts,
            (std::vector<std::string>{"param", "moment1", "moment2", "step", "lr", "rng"}));
  lines.tables = rounding + "profile = \"torchao_eager\"\n[compare]\noracles = [\"golden\"]\n";
  refused(lines, ":7:1", "a golden is computed by one rank");
  lines.tables = rounding;
  lines.adapters = "adapters = [\"torchao\"]\n";
  refused(lines, ":7:1", "profile canonical counts, and torchao draws");
  lines.tables = "[compare]\nparts = [\"rng\"]\n";
  refused(lines, ":7:10", "no generator is kept without model.dropout");
}

TEST_F(ScenarioTest, MasterCopiesStandBesideBf16) {
  Lines lines;
  lines.more = "master_dtype = \"fp32\"\n";
  refused(lines, ":3:1", "stands beside bf16 parameters");
  lines.more += "param_dtype = \"bf16\"\n";
  const Scenario scenario = read(lines.text());
  EXPECT_EQ(scenario.settings.master_dtype, "fp32");
  EXPECT_EQ(scenario.parts,
            (std::vector<std::string>{"param", "master", "moment1", "moment2", "step", "lr"}));
  lines.more = "master_dtype = \"bf16\"\n";
  refused(lines, ":3:1", "'bf16' is no master_dtype");
  lines.more = "master_dtype = \"fp32\"\nparam_dtype = \"bf16\"\n";
  lines.adapters = "adapters = [\"torchao\"]\n";
  refused(lines, ":3:1", "adapter torchao keeps no master copy");
  lines.adapters = "adapters = [\"reference\"]\n";
  lines.more = "param_dtype = \"bf16\"\n";
  lines.tables = "[compare]\nparts = [\"master\"]\n";
  refused(lines, ":7:10", "no master copy without master_dtype");
}

TEST_F(ScenarioTest, EveryWayOfSavingAndWrappingIsKnown) {
  Lines lines;
  lines.adapters = "adapters = [\"torchao\"]\n";
  for (const char* format : {"dcp", "dcp_flattened", "dcp_cpu_offload", "full"}) {
    for (const char* wrap : {"fsdp2", "fsdp2_matrices", "fsdp2_cpu_offload"}) {
      lines.tables = std::string("[run]\nsave_format = \"") + format +
                     "\"\n[adapter_options.torchao]\nwrap = \"" + wrap + "\"\n";
      EXPECT_EQ(read(lines.text()).settings.save_format, format);
    }
  }
  lines.adapters = "adapters = [\"reference\"]\n";
  lines.tables = "[run]\nsave_format = \"state_dict\"\n";
  refused(lines, ":9:16", "loaded by the ranks that saved");
  lines.resume = "[[resume]]\nfrom = \"dp2\"\nonto = [\"dp2\"]\n";
  EXPECT_EQ(read(lines.text()).settings.save_format, "state_dict");
}

TEST_F(ScenarioTest, EveryEnvironmentIsNamedOnBothSidesOrNone) {
  Lines lines;
  lines.adapters = "adapters = [\"torchao\"]\n";
  const std::string resume = lines.resume;
  lines.resume = resume + "save_env = \"*\"\nload_env = \"*\"\n";
  EXPECT_EQ(read(lines.text()).resumes[0].load_env, "*");
  lines.resume = resume + "load_env = \"*\"\nsave_env = \"torch-2.8\"\n";
  EXPECT_EQ(read(lines.text()).resumes[0].save_env, "torch-2.8");
  lines.resume = resume + "save_env = \"*\"\n";
  refused(lines, ":8:1", "load_env is left out; name the other side too");
  lines.resume = resume + "load_env = \"*\"\n";
  refused(lines, ":8:1", "save_env is left out; name the other side too");
  lines.resume =
      "[[resume]]\nfrom = \"dp2\"\nonto = [\"dp2\"]\nsave_env = \"*\"\nload_env = \"*\"\n";
  lines.tables = "[run]\nsave_format = \"state_dict\"\n";
  refused(lines, ":9:9", "cannot pass between two environments");
  lines.resume = "[[resume]]\nfrom = \"dp2\"\nonto = [\"dp2\"]\nsave_env = \"torch-2.8\"\n";
  EXPECT_EQ(read(lines.text()).resumes[0].save_env, "torch-2.8") << "loads under it, too";
}

TEST_F(ScenarioTest, ARefusalIsAskedInPlaceOfTheOracles) {
  Lines lines;
  lines.tables = "[compare]\nrefusal = \"load: cannot slice\"\n";
  const Scenario scenario = read(lines.text());
  EXPECT_EQ(scenario.refusal, "load: cannot slice");
  EXPECT_TRUE(scenario.oracles.empty());
  EXPECT_FALSE(scenario.parts.empty());
  const std::pair<const char*, const char*> wrong[] = {
      {"refusal = \"cannot slice\"\n", "does not say where the resume fails"},
      {"refusal = \"step 3: x\"\n", "no resumed run takes step 3; it takes 4 to 6"},
      {"refusal = \"step 7: x\"\n", "no resumed run takes step 7"},
      {"refusal = \"save: x\"\n", "does not say where the resume fails"},
      {"refusal = \"save_run step 1: x\"\n", "does not say where the resume fails"},
      {"refusal = \"load: x\"\noracles = [\"golden\"]\n", "a refusal leaves nothing to compare"},
      {"refusal = \"load: x\"\nexactness = \"bits\"\n", "so 'exactness' says nothing"},
      {"refusal = \"\"\n", "'refusal' is empty"},
      {"refusla = \"load: x\"\n", "did you mean 'refusal'?"}};
  for (const auto& [keys, words] : wrong) {
    lines.tables = std::string("[compare]\n") + keys;
    refused(lines, ":", words);
  }
}

TEST_F(ScenarioTest, SgdIsForPlainPython) {
  Lines lines;
  lines.adapters = "adapters = [\"plain_python\"]\n";
  refused(lines, ":", "plain_python has no optimizer adamw8bit; it has sgd");
  lines.tables = "[optimizer]\nname = \"sgd\"\n";
  EXPECT_EQ(read(lines.text()).parts, (std::vector<std::string>{"param", "moment1", "step", "lr"}));
  lines.more = "param_dtype = \"bf16\"\n";
  lines.tables = "[optimizer]\nname = \"sgd\"\nstochastic_rounding = true\n";
  refused(lines, ":", "sgd does not round stochastically; leave stochastic_rounding out");
  lines.tables = "[optimizer]\nname = \"sgd\"\nprofile_after_save = \"canonical\"\n";
  refused(lines, ":", "sgd has one arithmetic; leave profile_after_save out");
}

TEST_F(ScenarioTest, KnownBrokenIsCheckedWhenRead) {
  Lines lines;
  lines.tables = "[[known_broken]]\nwhen = \"adapter = 'x'\"\nsymptom = \"s\"\norigin = \"o\"\n";
  refused(lines, ":6", "column 9");
  lines.tables = "[[known_broken]]\nwhen = \"onto == 'dp1'\"\norigin = \"o\"\n";
  refused(lines, ":5", "'symptom' is missing");
  lines.tables = "[[known_broken]]\nwhen = \"onto == 'dp1'\"\nsymptom = \"\"\norigin = \"o\"\n";
  refused(lines, ":7:1", "'symptom' is empty");
}

TEST_F(ScenarioTest, BrokenTomlNamesItsPlace) {
  refused_text("summary = \"a\"\nadapters = [\n", ":", "TOML");
  refused_text("summary = \"a\"\nsummary = \"b\"\n", ":2:", "TOML");
  refused_text("\xff\xfe\n", ":1:", "TOML");
  refused_text("a = \"" + std::string(5000, 'x') + "\"\n", ":1:", "longer than 4000");
  refused_text(std::string(2 << 20, '\n'), "", "longer than 1 MiB");
  refused_text("", ":1:1", "'summary' is missing");
}

// Puts a comment mark before each line, as an author would.
std::string commented(const std::string& toml, const std::string& mark) {
  std::string text = mark + " /// scenario\n";
  for (std::size_t begin = 0; begin < toml.size();) {
    const std::size_t end = toml.find('\n', begin);
    const std::string line = toml.substr(begin, end - begin);
    text += line.empty() ? mark + "\n" : mark + " " + line + "\n";
    begin = end + 1;
  }
  return text + mark + " ///\n";
}

TEST_F(ScenarioTest, CarriersKeepTheLinesOfTheirFile) {
  Lines lines;
  lines.adapters = "adapters = [\"torchao\"]\n";
  const std::string before = "#!/usr/bin/env python3\n# why someone gets it wrong\n\n";
  const Scenario scenario =
      read(before + commented(lines.text(), "#") + "def load(): ...\n", "adamw8bit/y.py");
  EXPECT_EQ(scenario.carrier, "py");
  EXPECT_EQ(scenario.name, "adamw8bit/y");
  EXPECT_TRUE(scenario.file.is_absolute());
  lines.more = "sed = 1\n";
  refused_text(before + commented(lines.text(), "#"), ":7:3", "did you mean 'seed'?", "a/y.py");
  Lines native;
  EXPECT_EQ(read(commented(native.text(), "//"), "a/z.cpp").carrier, "cpp");
  native.more = "sed = 1\n";
  refused_text(commented(native.text(), "//"), ":4:4", "did you mean 'seed'?", "a/z.cpp");
}

TEST_F(ScenarioTest, CarriersMustHaveOneClosedBlock) {
  refused_text("print()\n", "", "has no scenario block", "y.py");
  refused_text("# /// scenario\n# a = 1\n", ":2", "ends inside", "y.py");
  refused_text("# /// scenario\n# a = 1\nimport os\n# ///\n", ":3", "not closed", "y.py");
  refused_text("# /// scenario\n# ///\n# /// scenario\n# ///\n", ":3", "second", "y.py");
  const std::string native = commented(Lines().text(), "#");
  refused_text(native, ":3:15", "reference is a native one", "y.py");
  refused_text("x", "", "is no scenario file", "y.yaml");
}

TEST_F(ScenarioTest, AFileOutsideTheTreeIsNamedByItself) {
  write_file(folder_ / "train.toml", Lines().text());
  EXPECT_EQ(read_scenario(folder_ / "train.toml", folder_.path() / "scenarios").at(0).name,
            "train");
  expect_error(Kind::usage, {"none.toml", "no such scenario file"},
               [&] { read_scenario(folder_ / "none.toml", folder_.path()); });
}

TEST_F(ScenarioTest, NoFileIsLeftOut) {
  read(Lines().text(), "b/x.toml");
  read(Lines().text(), "a/x.toml");
  std::filesystem::create_directories(folder_.path() / "a" / "__pycache__");
  write_file(folder_ / "a/__pycache__/y.pyc", std::string_view("x"));
  write_file(folder_ / "README.md", std::string_view("x"));
  write_file(folder_ / "a/.x.toml.swp", std::string_view("x"));
  const auto scenarios = read_scenarios(folder_.path());
  ASSERT_EQ(scenarios.size(), 2U);
  EXPECT_EQ(scenarios[0].name, "a/x");
  write_file(folder_ / "a/y.tml", std::string_view("x"));
  expect_error(Kind::usage, {"a/y.tml", "is no scenario file"},
               [&] { read_scenarios(folder_.path()); });
  std::filesystem::remove(folder_ / "a/y.tml");
  write_file(folder_ / "a/x.cpp", commented(Lines().text(), "//"));
  expect_error(Kind::usage, {"same name"}, [&] { read_scenarios(folder_.path()); });
  expect_error(Kind::usage, {"no such folder"}, [&] { read_scenarios(folder_ / "none"); });
}

TEST_F(ScenarioTest, NamesHoldNothingThatFiltersOrShellsTakeApart) {
  refused_text(Lines().text(), "", "characters that names must not hold", "a b.toml");
  refused_text(Lines().text(), "", "characters that names must not hold", "a*.toml");
}

}  // namespace
}  // namespace resumecheck
