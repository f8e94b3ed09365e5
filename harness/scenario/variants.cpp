#include "harness/scenario/variants.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/scenario/document.h"
#include "harness/scenario/nearest_name.h"
#include "harness/scenario/one_line.h"

namespace resumecheck {
namespace {

using Kind = TomlNode::Kind;

constexpr std::size_t most_combinations = 64;
constexpr std::string_view of_adapters = "adapter_options.";

struct Axis {
  std::string path;
  int line = 1;
  std::vector<TomlNode> values;
  std::vector<std::string> texts;  // of the values
};

// Keys that hold one value each.
Names paths() {
  Names names = {"param_dtype",
                 "master_dtype",
                 "seed",
                 "optimizer.name",
                 "optimizer.profile",
                 "optimizer.profile_after_save",
                 "optimizer.lr",
                 "optimizer.eps",
                 "optimizer.weight_decay",
                 "optimizer.block",
                 "optimizer.min_quantised_elements",
                 "optimizer.stochastic_rounding",
                 "model.layers",
                 "model.width",
                 "model.hidden",
                 "fp8.recipe",
                 "fp8.amax_history_len",
                 "fp8.amax_compute_algo",
                 "fp8.margin",
                 "fp8.format",
                 "fp8.update",
                 "fp8.reduce_amax",
                 "run.gradients",
                 "run.accumulate",
                 "run.save_after",
                 "run.train_until",
                 "run.save_format"};
  for (const AdapterDeclaration& adapter : adapter_declarations()) {
    for (const auto& [option, values] : adapter.options) {
      names.push_back(fmt::format("{}{}.{}", of_adapters, adapter.name, option));
    }
  }
  return names;
}

Names steps_of(const std::string& path) {
  Names steps;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    steps.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return steps;
}

// The text by which a case's name tells the value.
std::string text_of(const Document& document, const TomlNode& value, const std::string& path) {
  switch (value.kind) {
    case Kind::text:
      break;
    case Kind::integer:
      return std::to_string(value.integer);
    case Kind::real:
      return fmt::format("{}", value.real);
    case Kind::boolean:
      return value.boolean ? "true" : "false";
    default:
      document.refuse(value, fmt::format("'{}' varies over {}", path, name_of(value.kind)),
                      "give single values");
  }
  const std::string text = document.text(value, path);
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
  if (!plain) {
    document.refuse(value,
                    fmt::format("'{}' stands in the names of cases, which cannot hold it", text),
                    "use letters, digits, _ - and .");
  }
  return text;
}

// What an unquoted dotted path has become, as it would be written.
std::string nested_path(const std::string& path, const TomlNode& node) {
  if (node.kind != Kind::table || node.entries.empty()) return path;
  const TomlEntry& first = node.entries.front();
  return nested_path(fmt::format("{}.{}", path, first.key), first.node);
}

void check_path(const Document& document, const std::string& path, const TomlNode& values) {
  const Names known = paths();
  if (!contains(known, path)) {
    const bool nested = values.kind == Kind::table;
    document.refuse(
        values, fmt::format("[vary] '{}' is no key with a single value", path),
        nested ? fmt::format("quote the whole path: \"{}\" = [...]", nested_path(path, values))
               : did_you_mean(path, known));
  }
  document.as(values, Kind::list, path);
  if (values.items.empty()) {
    document.refuse(values, fmt::format("'{}' has no value, so there would be no case", path),
                    "list two values or more");
  }
  if (values.items.size() == 1) {
    document.refuse(values, fmt::format("'{}' has one value, so it varies nothing", path),
                    "write it as a key of its own, outside [vary]");
  }
}

const TomlNode* find_path(const TomlNode& root, const Names& steps) {
  const TomlNode* node = &root;
  for (const std::string& step : steps) {
    node = node == nullptr || node->kind != Kind::table ? nullptr : node->find(step);
  }
  return node;
}

Axis read_axis(const Document& document, const TomlNode& root, const std::string& path,
               const TomlNode& values) {
  check_path(document, path, values);
  if (const TomlNode* fixed = find_path(root, steps_of(path))) {
    document.refuse(values,
                    fmt::format("'{}' varies, and line {} gives it one value", path, fixed->line),
                    "leave one of the two out");
  }
  Axis axis;
  axis.path = path;
  axis.line = values.line;
  for (const TomlNode& value : values.items) {
    const std::string text = text_of(document, value, path);
    if (contains(axis.texts, text)) {
      document.refuse(value, fmt::format("'{}' stands twice in '{}'", text, path), "write it once");
    }
    axis.texts.push_back(text);
    axis.values.push_back(value);
  }
  return axis;
}

std::vector<Axis> read_axes(const Document& document, const TomlNode& root, const TomlNode& vary) {
  document.as(vary, Kind::table, "vary");
  std::vector<Axis> axes;
  std::size_t combinations = 1;
  for (const auto& [path, values] : vary.entries) {
    axes.push_back(read_axis(document, root, path, values));
    combinations *= axes.back().values.size();
    if (combinations > most_combinations) {
      document.refuse(values, fmt::format("more than {} combinations", most_combinations),
                      "split the scenario, or vary less");
    }
  }
  if (axes.empty()) document.refuse(vary, "[vary] varies nothing", "leave it out");
  return axes;
}

// Puts a value where its path says; tables that are not there yet are made. A path through what is
// no table is left as it is: the schema then names that.
void put(TomlNode& root, const Axis& axis, const TomlNode& value) {
  const Names steps = steps_of(axis.path);
  TomlNode* node = &root;
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    if (node->kind != Kind::table) return;
    auto found = std::find_if(node->entries.begin(), node->entries.end(),
                              [&](const TomlEntry& entry) { return entry.key == steps[i]; });
    if (found == node->entries.end()) {
      TomlNode table;
      table.line = axis.line;
      node->entries.push_back({steps[i], table});
      found = std::prev(node->entries.end());
    }
    node = &found->node;
  }
  if (node->kind == Kind::table) node->entries.push_back({steps.back(), value});
}

bool decides_bits(const std::string& path) {
  return path != "run.save_format" && path != "run.accumulate" && path.rfind(of_adapters, 0) != 0;
}

}  // namespace

std::vector<Variant> variants_of(const TomlNode& root, const std::string& file) {
  const TomlNode* vary = root.find("vary");
  if (vary == nullptr) return {{{}, root}};
  const Document document(file);
  const std::vector<Axis> axes = read_axes(document, root, *vary);
  TomlNode rest = root;
  std::erase_if(rest.entries, [](const TomlEntry& entry) { return entry.key == "vary"; });
  std::vector<Variant> variants = {{{}, rest}};
  for (const Axis& axis : axes) {
    std::vector<Variant> longer;
    for (const Variant& variant : variants) {
      for (std::size_t i = 0; i < axis.values.size(); ++i) {
        longer.push_back(variant);
        longer.back().choices.emplace_back(axis.path, axis.texts[i]);
        put(longer.back().document, axis, axis.values[i]);
      }
    }
    variants = std::move(longer);
  }
  return variants;
}

std::string variant_text(const Choices& choices) {
  std::string text;
  for (const auto& [path, chosen] : choices) text += (text.empty() ? "" : ",") + chosen;
  return text;
}

std::string golden_variant(const Scenario& scenario) {
  std::string text;
  for (const auto& [path, chosen] : scenario.choices) {
    if (decides_bits(path)) text += (text.empty() ? "" : "-") + chosen;
  }
  return text;
}

std::string golden_name(const Scenario& scenario) {
  const std::string variant = golden_variant(scenario);
  return variant.empty() ? scenario.name : scenario.name + "." + variant;
}

}  // namespace resumecheck
