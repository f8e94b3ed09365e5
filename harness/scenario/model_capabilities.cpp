#include "harness/scenario/model_capabilities.h"

#include <fmt/format.h>

#include "harness/scenario/model_schema.h"
#include "harness/scenario/names.h"

namespace resumecheck {
namespace {

// The node of table.key, or the nearest thing that is there to point at.
const TomlNode& node_of(const TomlNode& root, std::string_view table, std::string_view key) {
  const TomlNode* found = root.find(table);
  if (found == nullptr) return root;
  const TomlNode* value = found->find(key);
  return value != nullptr ? *value : *found;
}

// What GEMMs of FP8 operands take. Each rank's samples and micro-batches are split as chunk() does.
void check_whole_operands(const Document& document, const TomlNode& root, const Scenario& scenario,
                          const AdapterDeclaration& adapter) {
  const Settings& settings = scenario.settings;
  const auto refuse = [&](const char* table, const char* key, std::int64_t whole,
                          std::int64_t seen) {
    document.refuse(node_of(root, table, key),
                    fmt::format("adapter {} computes with multiples of {}, not with {} {}",
                                adapter.name, whole, seen, key),
                    fmt::format("write another {}, or gradients = \"order_free\"", key));
  };
  if (settings.model.width % adapter.whole_width != 0) {
    refuse("model", "width", adapter.whole_width, settings.model.width);
  }
  if (settings.model.hidden % adapter.whole_width != 0) {
    refuse("model", "hidden", adapter.whole_width, settings.model.hidden);
  }
  const auto check_samples = [&](const Mesh& mesh) {
    for (int rank = 0; rank < mesh.world(); ++rank) {
      const Rows mine = chunk(logical_samples, mesh.world(), rank);
      for (int k = 0; k < settings.accumulate; ++k) {
        const Rows batch = chunk(mine.last - mine.first, static_cast<int>(settings.accumulate), k);
        if ((batch.last - batch.first) % adapter.whole_samples == 0) continue;
        document.refuse(
            node_of(root, "run", "accumulate"),
            fmt::format("adapter {} computes with multiples of {} samples, and on {} a micro-batch "
                        "has {}",
                        adapter.name, adapter.whole_samples, mesh.text(), batch.last - batch.first),
            fmt::format("use a mesh and micro-batches that divide {} samples so", logical_samples));
      }
    }
  };
  for (const ResumePlan& plan : scenario.resumes) {
    check_samples(plan.from);
    for (const Mesh& onto : plan.onto) check_samples(onto);
  }
}

void check_adapters(const Document& document, const TomlNode& root, const Scenario& scenario) {
  const Settings& settings = scenario.settings;
  const auto check = [&](const std::string& wanted, const Names& has, const TomlNode& node,
                         const std::string& name, const char* what) {
    if (wanted.empty() || contains(has, wanted)) return;
    document.refuse(node, "adapter " + name + " has no " + what + " " + wanted,
                    has.empty() ? "list only adapters that do" : "it has " + joined(has));
  };
  for (const std::string& name : scenario.adapters) {
    const AdapterDeclaration& adapter = adapter_declaration(name);
    if (adapter.needs_model && settings.model.kind.empty()) {
      document.refuse(node_of(root, "model", "kind"),
                      "adapter " + name + " cannot train names and shapes",
                      "write kind = \"" + adapter.models.front() + "\"");
    }
    check(settings.model.kind, adapter.models, node_of(root, "model", "kind"), name, "model");
    check(settings.fp8.recipe, adapter.fp8_recipes, node_of(root, "fp8", "recipe"), name,
          "FP8 recipe");
    check(settings.gradients, adapter.gradients, node_of(root, "run", "gradients"), name,
          "gradients");
    for (const std::string& feature : features_of(settings)) {
      check(feature, adapter.features, root, name, "setting");
    }
    if (settings.gradients == "model") check_whole_operands(document, root, scenario, adapter);
  }
}

void check_gradients(const Document& document, const TomlNode& root, const Settings& settings) {
  if (settings.gradients == "model" && settings.model.kind.empty()) {
    document.refuse(node_of(root, "run", "gradients"), "names and shapes compute no gradients",
                    "write kind = \"layernorm_mlp\" in [model]");
  }
  if (settings.gradients != "model" && settings.accumulate != 1) {
    document.refuse(node_of(root, "run", "accumulate"),
                    "injected gradients are whole, so there is nothing to accumulate",
                    "write gradients = \"model\"");
  }
}

// Without the reduction every rank keeps scales of its own.
void check_per_rank_scales(const Document& document, const TomlNode& root,
                           const Scenario& scenario) {
  if (scenario.settings.fp8.reduce_amax || scenario.settings.fp8.recipe.empty()) return;
  const TomlNode& node = node_of(root, "fp8", "reduce_amax");
  for (const ResumePlan& plan : scenario.resumes) {
    for (const Mesh& onto : plan.onto) {
      if (onto == plan.from) continue;
      document.refuse(node,
                      "every rank keeps scales of its own, so " + plan.from.text() + " -> " +
                          onto.text() + " has none for other ranks",
                      "resume onto the same mesh, or leave reduce_amax out");
    }
    if (contains(scenario.oracles, "golden") && plan.from.world() > 1) {
      document.refuse(node, "a golden is computed by one rank, which has one rank's scales",
                      "leave golden out of the oracles");
    }
  }
  if (scenario.settings.gradients == "model" && contains(scenario.adapters, "reference")) {
    document.refuse(node, "a sum over samples that were quantised by different scales has no scale",
                    "write gradients = \"order_free\", or leave reduce_amax out");
  }
}

void check_fp8(const Document& document, const TomlNode& root, const Scenario& scenario) {
  const TomlNode* fp8 = root.find("fp8");
  if (fp8 == nullptr) return;
  const Settings& settings = scenario.settings;
  if (settings.model.kind.empty()) {
    document.refuse(*fp8, "names and shapes multiply nothing, so there is no FP8 state",
                    "write kind = \"layernorm_mlp\" in [model]");
  }
  if (settings.model.experts > 0) {
    document.refuse(*fp8, "scales are a layer's, and experts would need some of their own",
                    "leave experts out of [model]");
  }
  for (const auto& [key, value] : fp8->entries) {
    if (key == "recipe" || settings.fp8.recipe == "delayed") continue;
    if (settings.fp8.recipe.empty() || key != "format") {
      document.refuse(value,
                      "'" + key + "' is of delayed scaling, and the recipe is " +
                          (settings.fp8.recipe.empty() ? "none" : settings.fp8.recipe),
                      "leave it out");
    }
  }
}

}  // namespace

void check_model(const Document& document, const TomlNode& root, const Scenario& scenario) {
  check_gradients(document, root, scenario.settings);
  check_fp8(document, root, scenario);
  check_adapters(document, root, scenario);
  check_per_rank_scales(document, root, scenario);
}

std::string why_no_mesh_of(const Settings& settings, const Mesh& mesh) {
  const Settings::Model& model = settings.model;
  const int tp = mesh.size_of("tp"), pp = mesh.size_of("pp"), ep = mesh.size_of("ep");
  for (const MeshDim& dim : mesh.dims()) {
    if (dim.name == "rep" || dim.name == "dp" || !model.kind.empty()) continue;
    return fmt::format("names and shapes have no {}; write kind = \"layernorm_mlp\" in [model]",
                       dim.name);
  }
  if (logical_samples % tp != 0) {
    return fmt::format(
        "tp{} does not divide the {} chunks of the hidden features; tp2, tp3, tp4, "
        "tp6 and tp8 do",
        tp, logical_samples);
  }
  if (pp > model.layers && pp > 1) {
    return fmt::format("{} stages have only {} layers among them; write layers = {}", pp,
                       model.layers, pp);
  }
  if (ep > 1 && ep > model.experts) {
    return model.experts == 0
               ? "the model has no experts to divide; write experts = 4 in [model]"
               : fmt::format("ep{} has only {} experts to divide; write experts = {}", ep,
                             model.experts, ep);
  }
  if (mesh.world() > 1 && settings.gradients != "model" && (tp > 1 || pp > 1 || ep > 1) &&
      !settings.fp8.recipe.empty()) {
    return "injected amaxes are of whole layers; write gradients = \"model\"";
  }
  return {};
}

std::string why_no_fp8_state(const std::string& part, const Settings& settings) {
  if (settings.fp8.recipe.empty()) return "there is no FP8 state without [fp8]";
  if (settings.fp8.recipe == "delayed" || part == "fp8" || selects("fp8.recipe", part)) return {};
  return "recipe " + settings.fp8.recipe + " keeps neither scales nor an amax history";
}

}  // namespace resumecheck
