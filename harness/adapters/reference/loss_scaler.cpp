#include "harness/adapters/reference/loss_scaler.h"

#include <algorithm>
#include <cmath>

#include "harness/adapters/reference/checkpoint_values.h"

namespace resumecheck {
namespace {

constexpr const char* kScale = "loss_scaler/scale";
constexpr const char* kTracker = "loss_scaler/growth_tracker";

}  // namespace

LossScaler::LossScaler(const Settings::LossScale& settings)
    : settings_(settings), scale_(settings.initial) {}

// The scale is a power of two, so scaling rounds nothing that is not beyond fp32 anyway, and the
// gradient that is used afterwards is the unscaled one.
bool LossScaler::overflows(const std::vector<float>& gradient) const {
  return std::any_of(gradient.begin(), gradient.end(), [&](float value) {
    const float scaled = value * static_cast<float>(scale_);
    return !(std::fabs(static_cast<double>(scaled)) <= settings_.largest);
  });
}

void LossScaler::update(bool overflowed) {
  if (overflowed) {
    scale_ /= 2;
    growth_tracker_ = 0;
    return;
  }
  growth_tracker_ += 1;
  if (growth_tracker_ < settings_.growth_interval) return;
  scale_ *= 2;
  growth_tracker_ = 0;
}

void LossScaler::tell(std::map<std::string, Value>& values) const {
  values[kScale] = scale_;
  values[kTracker] = growth_tracker_;
}

void LossScaler::take(const LogicalState& checkpoint, const std::string& where) {
  scale_ = saved<double>(checkpoint, kScale, where);
  growth_tracker_ = saved<std::int64_t>(checkpoint, kTracker, where);
}

}  // namespace resumecheck
