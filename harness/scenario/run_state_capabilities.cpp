#include "harness/scenario/run_state_capabilities.h"

#include "harness/scenario/capabilities.h"

namespace resumecheck {

std::string why_no_run_state(const std::string& part, const Settings& settings) {
  if (part == "rng" && !draws_from_a_generator(settings) && settings.model.dropout == 0) {
    return "no generator is kept without model.dropout, or optimizer.stochastic_rounding and a "
           "torchao profile";
  }
  if (part == "param_group" && settings.optimizer.groups.empty()) {
    return "there is one group without [[optimizer.groups]]";
  }
  if (part == "scheduler" && settings.optimizer.schedule.empty()) {
    return "there is none without optimizer.schedule";
  }
  if (part == "grad_norm" && settings.optimizer.clip_norm == 0) {
    return "nobody computes it without optimizer.clip_norm";
  }
  if (part == "loss_scaler" && settings.loss_scale.initial == 0) {
    return "there is none without [loss_scale]";
  }
  if (part == "data_position" && settings.data != "stream") {
    return "the step decides the data without run.data = \"stream\"";
  }
  return {};
}

void check_run_state(const Document& document, const TomlNode& root, const Scenario& scenario) {
  const Settings& settings = scenario.settings;
  if (settings.gradients == "model") return;
  if (settings.data == "stream") {
    document.refuse(*root.find("run")->find("data"), "injected gradients come from no data",
                    "write gradients = \"model\"");
  }
  if (settings.model.dropout > 0) {
    document.refuse(*root.find("model")->find("dropout"),
                    "injected gradients come from no features, so none is dropped",
                    "write gradients = \"model\"");
  }
}

}  // namespace resumecheck
