#include "harness/scenario/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "harness/scenario/capabilities.h"
#include "harness/scenario/document.h"
#include "harness/scenario/expression.h"
#include "harness/scenario/model_schema.h"
#include "harness/scenario/nearest_name.h"
#include "harness/scenario/run_schema.h"

namespace resumecheck {
namespace {

using Kind = TomlNode::Kind;

// Done to the checkpoint between the two phases, whoever wrote it.
const Names checkpoint_faults = {"truncate_checkpoint", "remove_checkpoint"};

const Names subject_labels = {"quick",     "nightly",         "weekly",
                              "adamw8bit", "fp8_extra_state", "mesh_change"};

// Both, or neither, where one of them stands for any environment.
void read_environments(const Document& document, const TomlNode& node, ResumePlan& plan) {
  if (const TomlNode* name = node.find("save_env"))
    plan.save_env = document.text(*name, "save_env");
  if (const TomlNode* name = node.find("load_env"))
    plan.load_env = document.text(*name, "load_env");
  if ((plan.save_env == "*" && plan.load_env.empty()) ||
      (plan.load_env == "*" && plan.save_env.empty())) {
    const bool saves = !plan.save_env.empty();
    document.refuse(*node.find(saves ? "save_env" : "load_env"),
                    saves ? "save_env is \"*\" and load_env is left out"
                          : "load_env is \"*\" and save_env is left out",
                    std::string("name the other side too, \"*\" for every pair; or leave both out "
                                "for each environment with itself"));
  }
}

void check_written_once(const Document& document, const TomlNode& onto, const ResumePlan& plan,
                        const std::vector<ResumePlan>& others) {
  for (std::size_t i = 0; i < plan.onto.size(); ++i) {
    const auto repeats = [&](const Mesh& mesh) { return mesh == plan.onto[i]; };
    bool twice = std::count_if(plan.onto.begin(), plan.onto.end(), repeats) > 1;
    for (const ResumePlan& other : others) {
      twice = twice || (other.from == plan.from && other.save_env == plan.save_env &&
                        other.load_env == plan.load_env &&
                        std::any_of(other.onto.begin(), other.onto.end(), repeats));
    }
    if (twice) {
      document.refuse(onto.items[i],
                      plan.from.text() + " -> " + plan.onto[i].text() + " stands twice",
                      "each pair is one case: write it once");
    }
  }
}

std::vector<Mesh> meshes_of(const Document& document, const TomlNode& node, const char* key) {
  std::vector<Mesh> meshes;
  for (const TomlNode& item : document.as(node, Kind::list, key).items) {
    meshes.push_back(document.mesh(item, key));
  }
  if (meshes.empty()) {
    document.refuse(node, fmt::format("'{}' is empty, so nothing would resume", key),
                    "name at least one mesh");
  }
  return meshes;
}

// Every mesh of `from` with every one of `onto`.
void read_resume(const Document& document, const TomlNode& node, Scenario& scenario) {
  document.as(node, Kind::table, "resume");
  document.check_keys(node, "resume", {"from", "onto", "save_env", "load_env"});
  const TomlNode& from = document.require(node, "from", "write from = \"dp4\"");
  const TomlNode& onto = document.require(node, "onto", "write onto = [\"dp4\", \"dp2\"]");
  ResumePlan plan;
  plan.entry = scenario.resumes.empty() ? 0 : scenario.resumes.back().entry + 1;
  read_environments(document, node, plan);
  const std::vector<Mesh> sources = from.kind == Kind::list
                                        ? meshes_of(document, from, "from")
                                        : std::vector<Mesh>{document.mesh(from, "from")};
  plan.onto = meshes_of(document, onto, "onto");
  for (const Mesh& source : sources) {
    plan.from = source;
    check_written_once(document, onto, plan, scenario.resumes);
    scenario.resumes.push_back(plan);
  }
}

// The steps that a resumed run takes; at any other nothing could be seen.
void check_resumed_step(const Document& document, const TomlNode& node, const std::string& at,
                        const Settings& settings) {
  if (at == "load") return;
  const std::int64_t step = std::stoll(at.substr(at.find(' ') + 1));
  if (step > settings.save_after && step <= settings.train_until) return;
  document.refuse(node, fmt::format("no resumed run takes step {}", step),
                  fmt::format("it takes {} to {}", settings.save_after + 1, settings.train_until));
}

// What must be seen, as a failing resume is told: "load: text" or "step 4: text".
void read_refusal(const Document& document, const TomlNode& compare, const TomlNode& node,
                  Scenario& scenario) {
  const std::string refusal = document.text(node, "refusal");
  const std::string at = refusal.substr(0, refusal.find(": "));
  if (at == refusal || !is_moment(at) || at == "save" || at.rfind("save_run", 0) == 0) {
    document.refuse(node, "'" + refusal + "' does not say where the resume fails",
                    "write \"load: text\" or \"step 4: text\"");
  }
  check_resumed_step(document, node, at, scenario.settings);
  for (const char* key : {"oracles", "exactness"}) {  // parts: what must have been trained
    if (const TomlNode* other = compare.find(key)) {
      document.refuse(
          *other, "a refusal leaves nothing to compare, so '" + std::string(key) + "' says nothing",
          "leave one of the two out");
    }
  }
  scenario.refusal = refusal;
  scenario.oracles.clear();
}

void read_compare(const Document& document, const TomlNode& node, Scenario& scenario) {
  document.as(node, Kind::table, "compare");
  document.check_keys(node, "compare", {"parts", "oracles", "exactness", "refusal"});
  if (const TomlNode* refusal = node.find("refusal")) {
    read_refusal(document, node, *refusal, scenario);
  }
  if (const TomlNode* parts = node.find("parts")) {
    scenario.parts = document.texts(*parts, "parts");
    if (scenario.parts.empty()) document.refuse(*parts, "'parts' is empty", "leave it out for all");
  }
  if (const TomlNode* oracles = node.find("oracles")) {
    scenario.oracles = document.texts(*oracles, "oracles");
    const Names known = {"after_load", "trajectory", "golden"};
    for (const TomlNode& item : oracles->items) document.choice(item, "oracle", known);
    if (scenario.oracles.empty()) {
      document.refuse(*oracles, "'oracles' is empty, so nothing would be compared",
                      "leave it out for after_load and trajectory");
    }
  }
  if (const TomlNode* exactness = node.find("exactness")) {
    document.choice(*exactness, "exactness", {"bits"}, {"distance"});
  }
}

void read_fault(const Document& document, const TomlNode& node, Scenario& scenario) {
  document.as(node, Kind::table, "fault");
  document.check_keys(node, "fault", {"name", "rank", "at"});
  const TomlNode& name = document.require(node, "name", "write name = \"kill_rank\"");
  FaultSpec fault;
  fault.name = document.text(name, "name");
  const bool of_rank = contains(rank_fault_names(), fault.name);
  const bool of_checkpoint = contains(checkpoint_faults, fault.name);
  Names known = rank_fault_names();
  known.insert(known.end(), checkpoint_faults.begin(), checkpoint_faults.end());
  for (const AdapterDeclaration& adapter : adapter_declarations()) {
    known.insert(known.end(), adapter.defects.begin(), adapter.defects.end());
  }
  document.choice(name, "fault", known);
  for (const std::string& adapter : scenario.adapters) {
    if (!of_rank && !of_checkpoint && !contains(adapter_declaration(adapter).defects, fault.name)) {
      document.refuse(name, "adapter " + adapter + " has no defect " + fault.name,
                      "defects are switches of the reference: list only that adapter");
    }
  }
  if (const TomlNode* rank = node.find("rank")) {
    fault.rank = static_cast<int>(document.integer(*rank, "rank", 0, 7));
    for (const ResumePlan& plan : scenario.resumes) {
      int most = plan.from.world();
      for (const Mesh& mesh : plan.onto) most = std::max(most, mesh.world());
      if (*fault.rank >= most) {
        document.refuse(*rank, "no mesh of " + plan.from.text() + " -> ... has a rank " +
                                   std::to_string(*fault.rank));
      }
    }
  }
  if (const TomlNode* at = node.find("at")) {
    if (!of_rank) document.refuse(*at, fault.name + " has no moment of its own", "leave 'at' out");
    fault.at = document.text(*at, "at");
    if (!is_moment(fault.at)) {
      document.refuse(*at, "'" + fault.at + "' is no moment",
                      "write save_run step 2, save, load, or step 5");
    }
  } else if (of_rank) {
    document.refuse(node, "'at' is missing", "say when: at = \"save_run step 2\"");
  }
  scenario.faults.push_back(fault);
}

void read_known_broken(const Document& document, const TomlNode& node, Scenario& scenario) {
  document.as(node, Kind::table, "known_broken");
  document.check_keys(node, "known_broken", {"when", "symptom", "origin"});
  const TomlNode& when = document.require(node, "when", "write when = \"torchao < '0.17.0'\"");
  const TomlNode& symptom =
      document.require(node, "symptom", "quote what is seen: symptom = \"step 4: ...\"");
  const TomlNode& origin =
      document.require(node, "origin", "name the public report: origin = \"pytorch/ao#3314\"");
  KnownBroken known{document.text(when, "when"), document.text(symptom, "symptom"),
                    document.text(origin, "origin"), document.line(node)};
  check_expression(known.when, document.line(when));
  scenario.known_broken.push_back(known);
}

void read_requirements(const Document& document, const TomlNode& node, Scenario& scenario) {
  scenario.requirements = document.texts(node, "requires");
  for (std::size_t i = 0; i < scenario.requirements.size(); ++i) {
    const std::string& requirement = scenario.requirements[i];
    const Names machine = {"cuda", "nccl", "gxx"};
    if (contains(machine, requirement)) continue;
    const bool one_word = requirement.find_first_of(" ='<>!()") == requirement.npos;
    if (one_word) {
      document.refuse(
          node.items[i], "'" + requirement + "' is nothing a machine can have",
          did_you_mean(requirement, machine) + "; or write an expression such as torch >= '2.8'");
    }
    check_expression(requirement, document.line(node.items[i]));
  }
}

void read_adapter_options(const Document& document, const TomlNode& node, Scenario& scenario) {
  document.as(node, Kind::table, "adapter_options");
  document.check_keys(node, "adapter_options", scenario.adapters);
  for (const auto& [adapter, table] : node.entries) {
    const auto& declared = adapter_declaration(adapter).options;
    Names names;
    for (const auto& [name, values] : declared) names.push_back(name);
    document.as(table, Kind::table, "adapter_options." + adapter);
    for (const auto& [option, value] : table.entries) {
      const std::string shown = "adapter_options." + adapter + "." + option;
      const auto known = declared.find(option);
      if (known == declared.end()) {
        document.refuse(value, "adapter " + adapter + " has no option '" + option + "'",
                        names.empty() ? "it has none" : did_you_mean(option, names));
      }
      if (!known->second.empty()) document.choice(value, shown, known->second);
      Value& chosen = scenario.adapter_options[adapter][option];
      switch (value.kind) {
        case Kind::text:
          chosen = value.text;
          break;
        case Kind::integer:
          chosen = value.integer;
          break;
        case Kind::real:
          chosen = value.real;
          break;
        case Kind::boolean:
          chosen = value.boolean;
          break;
        default:
          document.refuse(value, "'" + shown + "' must be a single value");
      }
    }
  }
}

void check_labels(const Document& document, const TomlNode& node, const Scenario& scenario) {
  Names known = subject_labels;
  known.push_back(scenario.name.substr(0, scenario.name.find('/')));
  for (const TomlNode& item : node.items) document.choice(item, "label", known);
}

void read_adapters(const Document& document, const TomlNode& node, Scenario& scenario) {
  scenario.adapters = document.texts(node, "adapters");
  if (scenario.adapters.empty()) {
    document.refuse(node, "'adapters' is empty, so nobody would run it", "write [\"reference\"]");
  }
  Names known;
  for (const AdapterDeclaration& adapter : adapter_declarations()) known.push_back(adapter.name);
  for (const TomlNode& item : node.items) {
    const std::string name = document.choice(item, "adapter", known, {"libtorch"});
    if (scenario.carrier == "py" && adapter_declaration(name).native) {
      document.refuse(
          item, "the code of a .py overrides a Python adapter, and " + name + " is a native one",
          "list Python adapters only");
    }
    if (scenario.carrier == "cpp" && !adapter_declaration(name).native) {
      document.refuse(
          item, "the code of a .cpp overrides a native adapter, and " + name + " is a Python one",
          "list native adapters only");
    }
  }
}

void read_tables(const Document& document, const TomlNode& root, std::string_view key,
                 void (*read)(const Document&, const TomlNode&, Scenario&), Scenario& scenario) {
  const TomlNode* tables = root.find(key);
  if (tables == nullptr) return;
  if (tables->kind != Kind::list) {
    document.refuse(*tables, "'" + std::string(key) + "' must be a list of tables",
                    "write [[" + std::string(key) + "]]");
  }
  for (const TomlNode& table : tables->items) read(document, table, scenario);
}

void read_head(const Document& document, const TomlNode& root, Scenario& scenario) {
  scenario.summary = document.text(
      document.require(root, "summary", "state the property in one sentence"), "summary");
  read_adapters(document, document.require(root, "adapters", "write adapters = [\"reference\"]"),
                scenario);
  if (const TomlNode* node = root.find("origin")) scenario.origin = document.texts(*node, "origin");
  if (const TomlNode* node = root.find("labels")) {
    scenario.labels = document.texts(*node, "labels");
    check_labels(document, *node, scenario);
  }
  if (const TomlNode* node = root.find("param_dtype")) {
    scenario.settings.param_dtype = document.choice(*node, "param_dtype", {"fp32", "bf16"});
  }
  if (const TomlNode* node = root.find("master_dtype")) {
    scenario.settings.master_dtype = document.choice(*node, "master_dtype", {"fp32"});
  }
  if (const TomlNode* node = root.find("seed")) {
    scenario.settings.seed = static_cast<std::uint64_t>(
        document.integer(*node, "seed", 0, std::numeric_limits<std::int64_t>::max() - 1));
  }
}

}  // namespace

bool is_moment(std::string_view at) {
  if (at == "save" || at == "load") return true;
  for (const std::string_view start : {"save_run step ", "step "}) {
    if (at.substr(0, start.size()) != start) continue;
    const std::string_view digits = at.substr(start.size());
    return !digits.empty() && digits.size() <= 5 &&
           digits.find_first_not_of("0123456789") == digits.npos;
  }
  return false;
}

Scenario scenario_from(const TomlNode& root, const std::string& file, const std::string& name,
                       const std::string& carrier) {
  const Document document(file);
  document.check_keys(root, "",
                      {"summary", "origin", "labels", "adapters", "adapter_options", "model",
                       "param_dtype", "master_dtype", "seed", "fp8", "optimizer", "loss_scale",
                       "run", "resume", "compare", "fault", "known_broken", "requires", "vary"});
  Scenario scenario;
  scenario.name = name;
  scenario.carrier = carrier;
  scenario.settings.save_format.clear();
  scenario.oracles = {"after_load", "trajectory"};
  read_head(document, root, scenario);
  read_model(document, document.require(root, "model", "give names and shapes in [model]"),
             scenario.settings);
  if (const TomlNode* node = root.find("fp8")) read_fp8(document, *node, scenario.settings);
  if (const TomlNode* node = root.find("adapter_options")) {
    read_adapter_options(document, *node, scenario);
  }
  if (const TomlNode* node = root.find("optimizer"))
    read_optimizer(document, *node, scenario.settings);
  if (const TomlNode* node = root.find("loss_scale")) {
    read_loss_scale(document, *node, scenario.settings);
  }
  if (const TomlNode* node = root.find("run")) read_run(document, *node, scenario.settings);
  const TomlNode& resumes = document.require(root, "resume", "say from and onto in [[resume]]");
  read_tables(document, root, "resume", read_resume, scenario);
  if (const TomlNode* node = root.find("compare")) read_compare(document, *node, scenario);
  read_tables(document, root, "fault", read_fault, scenario);
  read_tables(document, root, "known_broken", read_known_broken, scenario);
  if (const TomlNode* node = root.find("requires")) read_requirements(document, *node, scenario);
  if (scenario.resumes.empty()) document.refuse(resumes, "no resume is planned", "add [[resume]]");
  check_capabilities(document, root, scenario);
  return scenario;
}

}  // namespace resumecheck
