#include "harness/scenario/model_schema.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/scenario/placement.h"
#include "harness/scenario/run_schema.h"

namespace resumecheck {
namespace {

using Kind = TomlNode::Kind;

constexpr std::int64_t most_elements = std::int64_t{1} << 31;
constexpr std::int64_t most_weights = std::int64_t{1} << 20;  // of fc1 or fc2, all layers: a step
                                                              // takes about a second

void read_shape(const Document& document, const std::string& name, const TomlNode& node,
                Settings& settings) {
  if (node.kind == Kind::table) {
    document.refuse(node, "a dot in the name of a parameter nests tables",
                    "quote the whole name: \"" + name + ".x\" = [64, 64]");
  }
  Shape shape;
  std::int64_t elements = 1;
  for (const TomlNode& item : document.as(node, Kind::list, name).items) {
    shape.push_back(document.integer(item, name, 1, most_elements));
    elements *= shape.back();
    if (elements > most_elements || shape.size() > 8) {
      document.refuse(item, "'" + name + "' is larger than a test needs",
                      "at most 8 dimensions and 2^31 elements");
    }
  }
  if (shape.empty()) document.refuse(node, "'" + name + "' has no dimension", "write [64]");
  settings.parameters.emplace_back(name, shape);
}

std::int64_t multiple_of_chunks(const Document& document, const TomlNode& node,
                                const std::string& key) {
  const std::int64_t value = document.integer(node, key, logical_samples, 24 * 256);
  if (value % logical_samples != 0) {
    document.refuse(
        node, fmt::format("'{}' is {}, which {} chunks do not divide", key, value, logical_samples),
        fmt::format("write a multiple of {}", logical_samples));
  }
  return value;
}

void read_kind(const Document& document, const TomlNode& node, Settings& settings) {
  document.check_keys(node, "model",
                      {"kind", "layers", "width", "hidden", "tied", "experts", "dropout", "frozen",
                       "frozen_steps"});
  Settings::Model& model = settings.model;
  for (const auto& [key, value] : node.entries) {
    if (key == "kind") {
      model.kind = document.choice(value, "model.kind", {"layernorm_mlp"});
    } else if (key == "layers") {
      model.layers = document.integer(value, key, 1, 8);
    } else if (key == "tied") {
      model.tied = document.boolean(value, key);
    } else if (key == "experts") {
      model.experts = document.integer(value, key, 1, 8);
    } else if (key == "width") {
      model.width = multiple_of_chunks(document, value, key);
    } else if (key == "hidden") {
      model.hidden = multiple_of_chunks(document, value, key);
    } else if (key == "dropout") {
      model.dropout = read_dropout(document, value);
    }
  }
  if (model.tied && model.experts > 0) {
    document.refuse(*node.find("tied"), "experts have weights of their own, which are not tied",
                    "leave one of the two out");
  }
  const std::int64_t experts = std::max<std::int64_t>(model.experts, 1);
  if (model.layers * model.width * model.hidden * experts > most_weights) {
    document.refuse(node,
                    fmt::format("{} layers of {} x {} are larger than a test needs", model.layers,
                                model.hidden, model.width),
                    fmt::format("layers * width * hidden must be at most {}", most_weights));
  }
  settings.parameters = parameters_of(model);
  read_frozen(document, node, settings);
}

}  // namespace

std::vector<std::pair<std::string, Shape>> parameters_of(const Settings::Model& model) {
  std::vector<std::pair<std::string, Shape>> parameters;
  for (std::int64_t i = 0; i < model.layers; ++i) {
    const auto add = [&](std::int64_t expert, const char* name, Shape shape) {
      const std::string parameter = parameter_name(model, i, expert, name);
      if (model.tied && i > 0 && parameter_name(model, 0, expert, name) == parameter) return;
      parameters.emplace_back(parameter, std::move(shape));
    };
    add(0, "norm.weight", {model.width});
    add(0, "norm.bias", {model.width});
    for (std::int64_t expert = 0; expert < std::max<std::int64_t>(model.experts, 1); ++expert) {
      add(expert, "fc1.weight", {model.hidden, model.width});
      add(expert, "fc1.bias", {model.hidden});
      add(expert, "fc2.weight", {model.width, model.hidden});
      add(expert, "fc2.bias", {model.width});
    }
  }
  return parameters;
}

void read_model(const Document& document, const TomlNode& node, Settings& settings) {
  document.as(node, Kind::table, "model");
  if (const TomlNode* kind = node.find("kind"); kind != nullptr && kind->kind == Kind::text) {
    read_kind(document, node, settings);
    return;
  }
  for (const auto& [name, shape] : node.entries) {
    const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return c > 0x20 && c < 0x7f && c != '/' && c != '"' && c != '\\';
    });
    if (name.empty() || !plain) {
      document.refuse(shape, "a parameter's name must be printable, without blanks and '/'",
                      "use names such as ffn.up");
    }
    read_shape(document, name, shape, settings);
  }
  if (settings.parameters.empty()) {
    document.refuse(node, "[model] has no parameter",
                    "write a name and a shape: embed = [256, 64]");
  }
}

void read_fp8(const Document& document, const TomlNode& node, Settings& settings) {
  document.as(node, Kind::table, "fp8");
  document.check_keys(node, "fp8",
                      {"recipe", "amax_history_len", "amax_compute_algo", "margin", "format",
                       "update", "reduce_amax"});
  Settings::Fp8& fp8 = settings.fp8;
  fp8.recipe = "delayed";
  for (const auto& [key, value] : node.entries) {
    if (key == "recipe") {
      fp8.recipe =
          document.choice(value, "fp8.recipe", {"delayed", "current", "block", "mxfp8", "none"});
    } else if (key == "amax_history_len") {
      fp8.amax_history_len = document.integer(value, key, 1, 1024);
    } else if (key == "amax_compute_algo") {
      fp8.amax_compute_algo =
          document.choice(value, "fp8.amax_compute_algo", {"max", "most_recent"});
    } else if (key == "margin") {
      fp8.margin = document.integer(value, key, -100, 100);
    } else if (key == "format") {
      fp8.format = document.choice(value, "fp8.format", {"hybrid", "e4m3"});
    } else if (key == "update") {
      fp8.update = document.choice(value, "fp8.update", {"fused", "unfused"});
    } else {
      fp8.reduce_amax = document.boolean(value, key);
    }
  }
  if (fp8.recipe == "none") fp8.recipe.clear();
}

}  // namespace resumecheck
