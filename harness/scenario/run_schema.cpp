#include "harness/scenario/run_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/scenario/glob.h"
#include "harness/scenario/model_schema.h"
#include "harness/scenario/scenario.h"

namespace resumecheck {
namespace {

using Kind = TomlNode::Kind;

constexpr std::int64_t most_steps = 10'000;
constexpr double any = std::numeric_limits<double>::infinity();

// Patterns of parameters' names, each of which fits one.
Names read_patterns(const Document& document, const TomlNode& node, std::string_view key,
                    const Settings& settings) {
  const Names patterns = document.texts(node, key);
  if (patterns.empty()) document.refuse(node, fmt::format("'{}' is empty", key), "name a pattern");
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const auto& parameters = settings.parameters;
    const bool fits = std::any_of(parameters.begin(), parameters.end(), [&](const auto& one) {
      return glob_matches(patterns[i], one.first);
    });
    if (fits) continue;
    document.refuse(node.items[i], fmt::format("'{}' fits no parameter", patterns[i]),
                    fmt::format("they are {}, ...", parameters.front().first));
  }
  return patterns;
}

void read_betas(const Document& document, const TomlNode& node, Settings::Optimizer& optimizer) {
  if (document.as(node, Kind::list, "betas").items.size() != 2) {
    document.refuse(node, "'betas' must be two numbers", "write betas = [0.9, 0.999]");
  }
  optimizer.beta1 = document.number(node.items[0], "betas", 0, 1);
  optimizer.beta2 = document.number(node.items[1], "betas", 0, 1);
}

double positive(const Document& document, const TomlNode& node, std::string_view key) {
  const double value = document.number(node, key, 0, any);
  if (value == 0) document.refuse(node, fmt::format("'{}' is 0", key), "leave it out for none");
  return value;
}

void read_optimizer_key(const Document& document, const std::string& key, const TomlNode& value,
                        Settings::Optimizer& optimizer) {
  if (key == "name") {
    optimizer.name = document.choice(value, "optimizer name", optimizer_names());
  } else if (key == "profile") {
    optimizer.profile = document.choice(value, "optimizer profile", profile_names());
  } else if (key == "profile_after_save") {
    optimizer.profile_after_save = document.choice(value, "optimizer profile", profile_names());
  } else if (key == "lr") {
    optimizer.lr = document.number(value, key, 0, any);
  } else if (key == "eps") {
    optimizer.eps = document.number(value, key, 0, any);
  } else if (key == "weight_decay") {
    optimizer.weight_decay = document.number(value, key, 0, any);
  } else if (key == "block") {
    optimizer.block = document.integer(value, key, 1, 65536);
  } else if (key == "min_quantised_elements") {
    optimizer.min_quantised_elements = document.integer(value, key, 0, std::int64_t{1} << 31);
  } else if (key == "stochastic_rounding") {
    optimizer.stochastic_rounding = document.boolean(value, key);
  } else if (key == "schedule") {
    optimizer.schedule = document.choice(value, "optimizer schedule", {"linear_warmup"});
  } else if (key == "schedule_steps") {
    optimizer.schedule_steps = document.integer(value, key, 1, most_steps);
  } else if (key == "clip_norm") {
    optimizer.clip_norm = positive(document, value, key);
  } else if (key == "betas") {
    read_betas(document, value, optimizer);
  }
}

void read_group(const Document& document, const TomlNode& node, Settings& settings) {
  document.as(node, Kind::table, "optimizer.groups");
  document.check_keys(node, "optimizer.groups", {"parameters", "lr", "weight_decay"});
  const TomlNode& patterns =
      document.require(node, "parameters", "write parameters = [\"*.bias\"]");
  Settings::Optimizer& optimizer = settings.optimizer;
  Settings::Optimizer::Group group = {
      read_patterns(document, patterns, "optimizer.groups.parameters", settings), optimizer.lr,
      optimizer.weight_decay};
  if (const TomlNode* lr = node.find("lr")) group.lr = document.number(*lr, "lr", 0, any);
  if (const TomlNode* decay = node.find("weight_decay")) {
    group.weight_decay = document.number(*decay, "weight_decay", 0, any);
  }
  optimizer.groups.push_back(group);
}

void check_schedule(const Document& document, const TomlNode& node,
                    const Settings::Optimizer& optimizer) {
  if (optimizer.schedule.empty() == (optimizer.schedule_steps == 0)) return;
  const bool named = !optimizer.schedule.empty();
  document.refuse(*node.find(named ? "schedule" : "schedule_steps"),
                  named ? "schedule has no length" : "schedule_steps belongs to no schedule",
                  named ? "write schedule_steps = 4" : "write schedule = \"linear_warmup\"");
}

void check_steps(const Document& document, const TomlNode& node, const Settings& settings) {
  if (settings.train_until <= settings.save_after) {
    const TomlNode* until = node.find("train_until");
    document.refuse(until != nullptr ? *until : node,
                    "train_until is " + std::to_string(settings.train_until) +
                        ", not behind save_after, which is " + std::to_string(settings.save_after),
                    "train at least one step after the save");
  }
  if (settings.train_until < settings.save_after + settings.resumes) {
    document.refuse(*node.find("resumes"),
                    fmt::format("{} resumes in a row take a step each, and there are {} to take",
                                settings.resumes, settings.train_until - settings.save_after),
                    fmt::format("train until {}", settings.save_after + settings.resumes));
  }
}

}  // namespace

void read_optimizer(const Document& document, const TomlNode& node, Settings& settings) {
  document.as(node, Kind::table, "optimizer");
  document.check_keys(node, "optimizer",
                      {"name", "profile", "profile_after_save", "lr", "betas", "eps",
                       "weight_decay", "block", "min_quantised_elements", "stochastic_rounding",
                       "groups", "schedule", "schedule_steps", "clip_norm"});
  Settings::Optimizer& optimizer = settings.optimizer;
  for (const auto& [key, value] : node.entries) {
    read_optimizer_key(document, key, value, optimizer);
  }
  if (node.find("block") == nullptr && optimizer.name == "adamw4bit") optimizer.block = 128;
  check_schedule(document, node, optimizer);
  const TomlNode* groups = node.find("groups");
  if (groups == nullptr) return;
  for (const TomlNode& group : document.as(*groups, Kind::list, "optimizer.groups").items) {
    read_group(document, group, settings);
  }
  if (optimizer.groups.empty()) {
    document.refuse(*groups, "'groups' is empty", "write [[optimizer.groups]]");
  }
}

void read_loss_scale(const Document& document, const TomlNode& node, Settings& settings) {
  document.as(node, Kind::table, "loss_scale");
  document.check_keys(node, "loss_scale", {"initial", "growth_interval", "largest"});
  const TomlNode& initial = document.require(node, "initial", "write initial = 1024");
  Settings::LossScale& scale = settings.loss_scale;
  scale.initial = positive(document, initial, "initial");
  int exponent = 0;
  if (std::frexp(scale.initial, &exponent) != 0.5) {
    document.refuse(initial, "'initial' is no power of two, so scaling would round gradients",
                    "write 1024");
  }
  if (const TomlNode* interval = node.find("growth_interval")) {
    scale.growth_interval = document.integer(*interval, "growth_interval", 1, most_steps);
  }
  if (const TomlNode* largest = node.find("largest")) {
    scale.largest = positive(document, *largest, "largest");
  }
}

void read_run(const Document& document, const TomlNode& node, Settings& settings) {
  document.as(node, Kind::table, "run");
  document.check_keys(
      node, "run",
      {"gradients", "data", "accumulate", "save_after", "train_until", "resumes", "save_format"});
  for (const auto& [key, value] : node.entries) {
    if (key == "gradients") {
      settings.gradients =
          document.choice(value, "gradients", {"order_free", "model"}, {"order_pinned"});
    } else if (key == "data") {
      settings.data = document.choice(value, "data", {"by_step", "stream"});
    } else if (key == "accumulate") {
      settings.accumulate = document.integer(value, key, 1, logical_samples);
    } else if (key == "save_after") {
      settings.save_after = document.integer(value, key, 1, most_steps);
    } else if (key == "train_until") {
      settings.train_until = document.integer(value, key, 1, most_steps);
    } else if (key == "resumes") {
      settings.resumes = document.integer(value, key, 1, 4);
    } else {
      settings.save_format = document.text(value, key);
    }
  }
  check_steps(document, node, settings);
}

void read_frozen(const Document& document, const TomlNode& model, Settings& settings) {
  const TomlNode* frozen = model.find("frozen");
  const TomlNode* steps = model.find("frozen_steps");
  if (frozen == nullptr && steps == nullptr) return;
  if (frozen == nullptr) {
    document.refuse(*steps, "frozen_steps freezes nothing", "name frozen = [\"*.bias\"]");
  }
  settings.model.frozen = read_patterns(document, *frozen, "frozen", settings);
  if (steps == nullptr) return;
  if (document.as(*steps, Kind::list, "frozen_steps").items.size() != 2) {
    document.refuse(*steps, "'frozen_steps' must be the first and the last step",
                    "write frozen_steps = [3, 4]");
  }
  Settings::Model& of = settings.model;
  of.frozen_from = document.integer(steps->items[0], "frozen_steps", 1, most_steps);
  of.frozen_until = document.integer(steps->items[1], "frozen_steps", of.frozen_from, most_steps);
}

double read_dropout(const Document& document, const TomlNode& node) {
  const double dropout = document.number(node, "dropout", 0, 1);
  if (dropout != 0 && dropout != 0.5) {
    document.refuse(node, "a generator's one bit drops half of the features or none",
                    "write dropout = 0.5");
  }
  return dropout;
}

}  // namespace resumecheck
