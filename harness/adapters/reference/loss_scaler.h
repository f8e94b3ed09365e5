// The scale of the loss, as beside fp16: an overflow skips the step and halves it, and so many
// steps without one double it. A resume that begins with another scale, or counts from zero,
// overflows at another step, and from there on is another run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/scenario/settings.h"
#include "harness/state/logical_state.h"

namespace resumecheck {

class LossScaler {
 public:
  explicit LossScaler(const Settings::LossScale& settings);

  // Whether a gradient of the unscaled loss, scaled, is no number or beyond the largest.
  bool overflows(const std::vector<float>& gradient) const;
  void update(bool overflowed);  // once a step, by what any rank has seen

  void tell(std::map<std::string, Value>& values) const;
  void take(const LogicalState& checkpoint, const std::string& where);

 private:
  Settings::LossScale settings_;
  double scale_ = 1;
  std::int64_t growth_tracker_ = 0;
};

}  // namespace resumecheck
