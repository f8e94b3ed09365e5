#include "harness/scenario/capabilities.h"

#include <algorithm>

#include "harness/scenario/model_capabilities.h"
#include "harness/scenario/nearest_name.h"
#include "harness/scenario/run_state_capabilities.h"

namespace resumecheck {
namespace {

// A selector of several parts is given where any of them is.
bool gives_part(const AdapterDeclaration& adapter, const std::string& part) {
  return std::any_of(adapter.parts.begin(), adapter.parts.end(),
                     [&](const std::string& given) { return selects(part, given); });
}

// Nothing where the settings keep the part; otherwise why there is none.
std::string why_not_kept(const std::string& part, const Settings& settings) {
  if (part == "master" && settings.master_dtype.empty()) {
    return "there is no master copy without master_dtype = \"fp32\"";
  }
  if (selects("fp8", part)) return why_no_fp8_state(part, settings);
  return why_no_run_state(part, settings);
}

void choose_parts(Scenario& scenario) {
  for (const char* part :
       {"param", "master", "moment1", "moment2", "fp8", "step", "lr", "rng", "param_group",
        "scheduler", "grad_norm", "loss_scaler", "data_position"}) {
    const bool everywhere =
        std::all_of(scenario.adapters.begin(), scenario.adapters.end(),
                    [&](const auto& name) { return gives_part(adapter_declaration(name), part); });
    if (everywhere && why_not_kept(part, scenario.settings).empty()) {
      scenario.parts.emplace_back(part);
    }
  }
}

void check_parts(const Document& document, const TomlNode& root, Scenario& scenario) {
  const TomlNode* compare = root.find("compare");
  const TomlNode* parts = compare == nullptr ? nullptr : compare->find("parts");
  if (parts == nullptr) {
    choose_parts(scenario);
    return;
  }
  for (const TomlNode& item : parts->items) {
    for (const std::string& name : scenario.adapters) {
      const AdapterDeclaration& adapter = adapter_declaration(name);
      if (gives_part(adapter, item.text)) continue;
      Names known = adapter.parts;
      known.insert(known.end(), {"moment1", "moment2", "fp8"});
      document.refuse(item, "adapter " + name + " cannot give the part '" + item.text + "'",
                      did_you_mean(item.text, known));
    }
    const std::string reason = why_not_kept(item.text, scenario.settings);
    if (!reason.empty()) document.refuse(item, "part '" + item.text + "': " + reason);
  }
}

void check_mesh(const Document& document, const TomlNode& node, const Mesh& mesh,
                const Scenario& scenario) {
  if (const std::string reason = why_no_mesh_of(scenario.settings, mesh); !reason.empty()) {
    document.refuse(node, "mesh '" + mesh.text() + "': " + reason);
  }
  for (const std::string& name : scenario.adapters) {
    const AdapterDeclaration& adapter = adapter_declaration(name);
    for (const MeshDim& dim : mesh.dims()) {
      if (!contains(adapter.mesh_dims, dim.name)) {
        document.refuse(
            node, "mesh '" + mesh.text() + "': " + dim.name + " is not runnable by adapter " + name,
            "it runs " + joined(adapter.mesh_dims));
      }
    }
    const auto options = scenario.adapter_options.find(name);
    if (options == scenario.adapter_options.end()) continue;
    const auto wrap = options->second.find("wrap");
    if (wrap != options->second.end() && wrap->second == Value(std::string("none")) &&
        mesh.world() > 1) {
      document.refuse(node,
                      "mesh '" + mesh.text() +
                          "': wrap = \"none\" holds plain tensors on one "
                          "rank",
                      "use dp1, or wrap = \"fsdp2\"");
    }
  }
}

// What each rank keeps for itself cannot be loaded by another number of ranks.
void check_same_ranks(const Document& document, const TomlNode& node, const ResumePlan& plan,
                      const Mesh& onto, const Scenario& scenario) {
  const std::string& format = scenario.settings.save_format;
  if (format != "torch_save" && format != "state_dict") return;
  if (!(onto == plan.from)) {
    document.refuse(node, "save_format " + format + " is loaded by the ranks that saved",
                    "resume onto " + plan.from.text() + ", or leave save_format out");
  }
  const bool two = !plan.save_env.empty() && !plan.load_env.empty() &&
                   (plan.save_env != plan.load_env || plan.save_env == "*");
  if (format == "state_dict" && two) {
    document.refuse(node, "a state_dict in memory cannot pass between two environments",
                    "save as torch_save or dcp");
  }
}

void check_resumes(const Document& document, const TomlNode& resumes, const Scenario& scenario) {
  bool any_python = false;
  for (const std::string& name : scenario.adapters) {
    any_python = any_python || !adapter_declaration(name).native;
  }
  for (const ResumePlan& plan : scenario.resumes) {
    const TomlNode& node = resumes.items[plan.entry];
    check_mesh(document, *node.find("from"), plan.from, scenario);
    for (std::size_t k = 0; k < plan.onto.size(); ++k) {
      const TomlNode& onto = node.find("onto")->items[k];
      check_mesh(document, onto, plan.onto[k], scenario);
      check_same_ranks(document, onto, plan, plan.onto[k], scenario);
    }
    for (const char* key : {"save_env", "load_env"}) {
      if (const TomlNode* env = node.find(key); env != nullptr && !any_python) {
        document.refuse(*env, "native adapters have no environment", "leave it out");
      }
    }
  }
}

void check_save_format(const Document& document, const TomlNode& root, const Scenario& scenario) {
  const TomlNode* run = root.find("run");
  const TomlNode* format = run == nullptr ? nullptr : run->find("save_format");
  if (format == nullptr) return;
  for (const std::string& name : scenario.adapters) {
    document.choice(*format, "save_format of adapter " + name,
                    adapter_declaration(name).save_formats);
  }
}

// The node of an optimizer's key, or the nearest thing that is there to point at.
class OptimizerNodes {
 public:
  explicit OptimizerNodes(const TomlNode& root) : root_(root), table_(root.find("optimizer")) {}
  const TomlNode& of(std::string_view key) const {
    const TomlNode* found = table_ == nullptr ? nullptr : table_->find(key);
    return found != nullptr ? *found : table_ != nullptr ? *table_ : root_;
  }
  bool has(std::string_view key) const { return table_ != nullptr && table_->find(key) != nullptr; }

 private:
  const TomlNode& root_;
  const TomlNode* table_;
};

void check_block(const Document& document, const OptimizerNodes& nodes,
                 const Settings::Optimizer& optimizer) {
  if (!nodes.has("block")) return;
  if (optimizer.name == "adamw" || optimizer.name == "sgd") {
    document.refuse(nodes.of("block"), optimizer.name + " quantises nothing, so it has no blocks",
                    "leave block out");
  }
  if (optimizer.name == "adamw4bit" && optimizer.block % 2 != 0) {
    document.refuse(nodes.of("block"),
                    "two 4-bit codes share a byte, so a block of " +
                        std::to_string(optimizer.block) + " would end inside one",
                    "write an even block");
  }
}

// The canonical formula and torchao's differ by more than how a step runs.
void check_profiles(const Document& document, const OptimizerNodes& nodes,
                    const Settings::Optimizer& optimizer) {
  const std::string& later = optimizer.profile_after_save;
  if (!later.empty() && optimizer.name == "sgd") {
    document.refuse(nodes.of("profile_after_save"), "sgd has one arithmetic",
                    "leave profile_after_save out");
  }
  if (later.empty() || (later == "canonical") == (optimizer.profile == "canonical")) return;
  document.refuse(
      nodes.of("profile_after_save"),
      optimizer.profile + " and " + later + " are two formulas, not two ways to run one",
      "change between torchao_eager and torchao_compiled, or leave it out");
}

void check_optimizer(const Document& document, const TomlNode& root, const Scenario& scenario) {
  const Settings::Optimizer& optimizer = scenario.settings.optimizer;
  const OptimizerNodes nodes(root);
  for (const std::string& name : scenario.adapters) {
    const AdapterDeclaration& adapter = adapter_declaration(name);
    if (!contains(adapter.optimizers, optimizer.name)) {
      document.refuse(nodes.of("name"), "adapter " + name + " has no optimizer " + optimizer.name,
                      "it has " + joined(adapter.optimizers));
    }
    if (name == "torchao" && optimizer.min_quantised_elements != 4096) {
      document.refuse(nodes.of("min_quantised_elements"), "torchao always decides at 4096 elements",
                      "leave min_quantised_elements out, or list only the reference");
    }
  }
  check_block(document, nodes, optimizer);
  check_profiles(document, nodes, optimizer);
}

// What a rank draws from its own generator depends on how many elements it holds.
void check_generator(const Document& document, const TomlNode& node, const Scenario& scenario) {
  for (const ResumePlan& plan : scenario.resumes) {
    for (const Mesh& onto : plan.onto) {
      if (onto == plan.from) continue;
      document.refuse(node,
                      "a rank's generator draws once an element that it holds, so " +
                          plan.from.text() + " -> " + onto.text() + " cannot round alike",
                      "resume onto the same mesh, or use profile canonical, which counts");
    }
    if (contains(scenario.oracles, "golden") && plan.from.size_of("dp") > 1) {
      document.refuse(node,
                      "a golden is computed by one rank, whose generator draws otherwise than "
                      "those of " +
                          plan.from.text(),
                      "leave golden out of the oracles, or use dp1");
    }
  }
}

void check_rounding(const Document& document, const TomlNode& root, const Scenario& scenario) {
  const Settings& settings = scenario.settings;
  if (!settings.optimizer.stochastic_rounding) return;
  const TomlNode& node = OptimizerNodes(root).of("stochastic_rounding");
  if (settings.optimizer.name == "sgd") {
    document.refuse(node, "sgd does not round stochastically", "leave stochastic_rounding out");
  }
  if (settings.param_dtype != "bf16") {
    document.refuse(node, "only bf16 parameters are rounded stochastically",
                    "write param_dtype = \"bf16\"");
  }
  if (contains(scenario.adapters, "reference") && has_compiled_steps(settings)) {
    document.refuse(node, "the compiler draws in an order of its own, which no reference models",
                    "use torchao_eager, or list only torchao");
  }
  if (draws_from_a_generator(settings)) {
    check_generator(document, node, scenario);
  } else if (contains(scenario.adapters, "torchao")) {
    document.refuse(node, "profile canonical counts, and torchao draws from torch's generator",
                    "write profile = \"torchao_eager\" or \"torchao_compiled\"");
  }
}

void check_master(const Document& document, const TomlNode& root, const Scenario& scenario) {
  const TomlNode* node = root.find("master_dtype");
  if (node == nullptr) return;
  if (scenario.settings.param_dtype != "bf16") {
    document.refuse(*node, "a master copy stands beside bf16 parameters",
                    "write param_dtype = \"bf16\", or leave master_dtype out");
  }
  for (const std::string& name : scenario.adapters) {
    if (!gives_part(adapter_declaration(name), "master")) {
      document.refuse(*node, "adapter " + name + " keeps no master copy",
                      "list only adapters that do, such as the reference");
    }
  }
}

// Each resume but the last saves what the next one loads.
void check_resumes_in_a_row(const Document& document, const TomlNode& root,
                            const Scenario& scenario) {
  const Settings& settings = scenario.settings;
  if (settings.resumes == 1) return;
  const TomlNode& node = *root.find("run")->find("resumes");
  if (settings.save_format == "state_dict") {
    document.refuse(node, "a state dict in memory is loaded once, by the process that has it",
                    "write another save_format");
  }
  if (!settings.optimizer.profile_after_save.empty()) {
    document.refuse(node, "profile_after_save speaks of one save, and here are several",
                    "leave one of the two out");
  }
  if (!scenario.refusal.empty()) {
    document.refuse(node, "after a refusal nothing is resumed", "leave one of the two out");
  }
}

}  // namespace

bool draws_from_a_generator(const Settings& settings) {
  const auto of_torch = [](const std::string& profile) { return profile.rfind("torchao", 0) == 0; };
  return settings.optimizer.stochastic_rounding &&
         (of_torch(settings.optimizer.profile) || of_torch(settings.optimizer.profile_after_save));
}

bool has_compiled_steps(const Settings& settings) {
  const Settings::Optimizer& optimizer = settings.optimizer;
  return optimizer.profile == "torchao_compiled" ||
         optimizer.profile_after_save == "torchao_compiled";
}

void check_capabilities(const Document& document, const TomlNode& root, Scenario& scenario) {
  check_optimizer(document, root, scenario);
  check_save_format(document, root, scenario);
  check_resumes(document, *root.find("resume"), scenario);
  check_resumes_in_a_row(document, root, scenario);
  check_rounding(document, root, scenario);
  check_master(document, root, scenario);
  check_model(document, root, scenario);
  check_run_state(document, root, scenario);
  check_parts(document, root, scenario);
}

}  // namespace resumecheck
