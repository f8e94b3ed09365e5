#include "harness/adapters/reference/parameter_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/adapters/reference/checkpoint_values.h"
#include "harness/scenario/glob.h"

namespace resumecheck {
namespace {

std::string told_name(const char* part, std::size_t group, const char* field) {
  return fmt::format("{}/{}{}", part, group, field);
}

// In a checkpoint only: lr and decay as they were given, not of a step.
std::string kept_name(std::size_t group, const char* field) {
  return fmt::format("optimizer/group{}.{}", group, field);
}

std::vector<std::string> split(const std::string& joined) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < joined.size();) {
    const std::size_t end = std::min(joined.find(' ', begin), joined.size());
    names.push_back(joined.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

double as_fp32(double value) { return static_cast<double>(static_cast<float>(value)); }

}  // namespace

ParameterGroups::ParameterGroups(const Settings& settings)
    : told_(!settings.optimizer.groups.empty()),
      scheduled_(!settings.optimizer.schedule.empty()),
      schedule_steps_(static_cast<double>(settings.optimizer.schedule_steps)) {
  const Settings::Optimizer& optimizer = settings.optimizer;
  const auto add = [&](double lr, double decay) { groups_.push_back({lr, decay, {}, lr, decay}); };
  add(optimizer.lr, optimizer.weight_decay);
  for (const auto& group : optimizer.groups) add(group.lr, group.weight_decay);
  for (const auto& parameter : settings.parameters) {
    std::size_t index = 0;
    for (std::size_t i = optimizer.groups.size(); i-- > 0;) {
      const auto& patterns = optimizer.groups[i].parameters;
      const bool fits = std::any_of(patterns.begin(), patterns.end(), [&](const auto& pattern) {
        return glob_matches(pattern, parameter.first);
      });
      if (fits) index = i + 1;
    }
    groups_[index].parameters.push_back(parameter.first);
  }
}

void ParameterGroups::begin_step() {
  decay_of_this_step_as_made_ = decays_as_made_;
  decays_as_made_ = false;
  double factor = 1;
  if (scheduled_) {
    steps_ += 1;
    factor = std::min(1.0, static_cast<double>(steps_) / schedule_steps_);
  }
  for (Group& group : groups_) group.lr_now = group.lr * factor;
}

const ParameterGroups::Group& ParameterGroups::group_of(const std::string& parameter) const {
  for (std::size_t i = 1; i < groups_.size(); ++i) {
    const auto& names = groups_[i].parameters;
    if (std::find(names.begin(), names.end(), parameter) != names.end()) return groups_[i];
  }
  return groups_.front();
}

kernels::AdamWSettings ParameterGroups::of(const std::string& parameter,
                                           kernels::AdamWSettings optimizer) const {
  const Group& group = group_of(parameter);
  optimizer.lr = group.lr_now;
  optimizer.weight_decay = decay_of_this_step_as_made_ ? group.decay_as_made : group.weight_decay;
  return optimizer;
}

void ParameterGroups::tell(std::map<std::string, Value>& values) const {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    values[told_name("lr", i, "")] = as_fp32(group.lr_now);
    if (!told_) continue;
    values[told_name("param_group", i, ".weight_decay")] = group.weight_decay;
    values[told_name("param_group", i, ".parameters")] =
        fmt::format("{}", fmt::join(group.parameters, " "));
  }
  if (scheduled_) values["scheduler/steps"] = steps_;
}

void ParameterGroups::keep(std::map<std::string, Value>& values) const {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    values[kept_name(i, "lr")] = groups_[i].lr;
    values[kept_name(i, "weight_decay")] = groups_[i].weight_decay;
  }
}

void ParameterGroups::take(const LogicalState& checkpoint, const std::string& where) {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    group.lr = saved<double>(checkpoint, kept_name(i, "lr"), where);
    group.lr_now = saved<double>(checkpoint, told_name("lr", i, ""), where);
    group.weight_decay = saved<double>(checkpoint, kept_name(i, "weight_decay"), where);
    if (!told_) continue;
    const std::string told = told_name("param_group", i, ".weight_decay");
    group.weight_decay = saved<double>(checkpoint, told, where);
    group.parameters =
        split(saved<std::string>(checkpoint, told_name("param_group", i, ".parameters"), where));
  }
  if (scheduled_) steps_ = saved<std::int64_t>(checkpoint, "scheduler/steps", where);
}

void ParameterGroups::take_from(const ParameterGroups& source) {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const double as_made = groups_[i].decay_as_made;
    groups_[i] = source.groups_.at(i);
    groups_[i].decay_as_made = as_made;
  }
  steps_ = source.steps_;
}

}  // namespace resumecheck
