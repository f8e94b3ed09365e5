// Everything that changes what a run computes or keeps must be named here once, so that an adapter
// which cannot do it refuses the scenario instead of training something else.
#include "harness/scenario/settings.h"

namespace resumecheck {

std::vector<std::string> features_of(const Settings& settings) {
  const Settings::Model& model = settings.model;
  const Settings::Optimizer& optimizer = settings.optimizer;
  std::vector<std::string> features;
  const auto add = [&](bool used, const char* name) {
    if (used) features.emplace_back(name);
  };
  add(model.tied, "tied");
  add(model.experts > 0, "experts");
  add(model.dropout > 0, "dropout");
  add(!model.frozen.empty(), "frozen");
  add(!optimizer.groups.empty(), "groups");
  add(!optimizer.schedule.empty(), "schedule");
  add(optimizer.clip_norm > 0, "clip_norm");
  add(settings.loss_scale.initial > 0, "loss_scale");
  add(settings.data != "by_step", "data");
  add(settings.resumes > 1, "resumes");
  return features;
}

}  // namespace resumecheck
