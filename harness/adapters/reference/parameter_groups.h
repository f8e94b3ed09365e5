// Which lr and weight decay each parameter is trained with, and how far the schedule has come. A
// group's membership is state too: loaded by index into groups that are made in another order, the
// right numbers go to the wrong parameters, and nothing fails.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/scenario/settings.h"
#include "harness/state/logical_state.h"
#include "kernels/adamw.h"

namespace resumecheck {

class ParameterGroups {
 public:
  explicit ParameterGroups(const Settings& settings);

  // Of the step that is about to be taken; a step that is skipped never begins.
  void begin_step();
  kernels::AdamWSettings of(const std::string& parameter, kernels::AdamWSettings optimizer) const;

  void tell(std::map<std::string, Value>& values) const;  // what decides the next step
  void keep(std::map<std::string, Value>& values) const;  // what only a checkpoint holds
  void take(const LogicalState& checkpoint, const std::string& where);
  void take_from(const ParameterGroups& source);  // as many groups

  // Deliberate mistake: the next step takes the weight decay that these groups were made with.
  void decay_as_made_for_one_step() { decays_as_made_ = true; }
  void count_a_step() { steps_ += 1; }  // deliberate mistake, where no step was taken

 private:
  struct Group {
    double lr = 0;
    double weight_decay = 0;
    std::vector<std::string> parameters;
    double lr_now = 0;  // of the step just taken
    double decay_as_made = 0;
  };
  const Group& group_of(const std::string& parameter) const;

  std::vector<Group> groups_;  // the first is of what no other takes
  bool told_ = false;          // several
  bool scheduled_ = false;
  double schedule_steps_ = 1;
  std::int64_t steps_ = 0;  // of the schedule
  bool decays_as_made_ = false;
  bool decay_of_this_step_as_made_ = false;
};

}  // namespace resumecheck
