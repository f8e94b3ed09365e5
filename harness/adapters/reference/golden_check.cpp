#include "harness/adapters/reference/golden_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/adapters/reference/reference.h"
#include "harness/state/json_text.h"

namespace resumecheck {
namespace {

// reference_states keeps what it is given alive only for the call.
std::shared_ptr<const Arithmetic> borrowed(const Arithmetic& arithmetic) {
  return {std::shared_ptr<const Arithmetic>(), &arithmetic};
}

Golden computed_by(const Arithmetic& arithmetic, const Golden& golden, const Scenario& scenario) {
  Golden now = make_golden({}, scenario, reference_states(scenario.settings, borrowed(arithmetic)));
  now.file = golden.file;
  return now;
}

std::string where_it_was_made(const std::string& machine, const std::string& where) {
  const nlohmann::json object = parse_json(machine, where);
  std::string text;
  for (const auto& [key, value] : object.items()) {
    if (value.is_null()) continue;
    text += fmt::format("    {:<10} {}\n", key,
                        value.is_string() ? value.get<std::string>() : dump(value));
  }
  return text;
}

}  // namespace

std::string GoldenCheck::conclusion() const {
  if (same()) return "";
  const auto twin = std::find_if(computed.begin(), computed.end(),
                                 [](const Computed& one) { return one.by == "slow twin"; });
  const auto agrees = [](const Computed& one) { return one.agrees; };
  const bool one_build_agrees = std::any_of(computed.begin(), twin, agrees);
  if (twin->agrees && one_build_agrees) {
    return fmt::format(
        "only {} differs: its code or its compiler flags are broken, the golden is "
        "right",
        differs_by);
  }
  if (twin->agrees) {
    return "the slow twin still gives the golden: this build's compiler flags (it must have "
           "-ffp-contract=off), its kernels or this machine changed the bits; the golden is right";
  }
  const bool one_digest = std::all_of(computed.begin(), computed.end(), [&](const Computed& one) {
    return one.digest == computed.front().digest;
  });
  if (one_digest) {
    return "every instruction set and the slow twin agree with each other: the formulas, the "
           "random "
           "numbers or the golden changed, not this build or machine; if that was meant, "
           "`resumecheck golden update --reason WHY`";
  }
  if (one_build_agrees) {
    return "the slow twin does not give the golden but the kernels do: the twin was changed or "
           "compiled with other flags";
  }
  return "neither the kernels nor the slow twin give the golden, and they disagree with each "
         "other: "
         "a formula was changed on one side only, or this machine or its flags break both";
}

GoldenCheck check_golden(const Golden& golden, const Scenario& scenario,
                         const std::vector<std::shared_ptr<const Arithmetic>>& builds,
                         const Arithmetic& twin) {
  GoldenCheck check;
  const auto ask = [&](const Arithmetic& arithmetic) {
    const Golden now = computed_by(arithmetic, golden, scenario);
    const auto found = differences(golden, now);
    check.computed.push_back({arithmetic.name(), found.empty(), now.digest});
    if (!found.empty() && check.differences.empty()) {
      check.differences = found;
      check.differs_by = arithmetic.name();
    }
  };
  for (const auto& build : builds) ask(*build);
  ask(twin);
  return check;
}

std::string explanation(const GoldenCheck& check, const Golden& golden,
                        const std::string& this_machine_json) {
  const GoldenDifference& first = check.differences.front();
  std::size_t tensors = 0;
  for (const auto& [step, of_step] : golden.steps) tensors += of_step.size();
  std::string text = fmt::format(
      "DIFFERENT  {}   golden {}\n  {} of {} tensors over {} steps; first is {} at step {}\n    "
      "{}\n"
      "  computed by\n",
      golden.scenario, golden.digest, check.differences.size(), tensors, golden.steps.size(),
      to_text(first.key), first.step, first.what);
  for (const GoldenCheck::Computed& one : check.computed) {
    text += fmt::format("    {:<10} {}\n", one.by,
                        one.agrees ? "gives the golden" : "differs: " + one.digest);
  }
  text += "  " + check.conclusion() + "\n  this build\n" +
          where_it_was_made(this_machine_json, "this machine");
  text += fmt::format("  the golden, of {}: {}\n", golden.date, golden.reason) +
          where_it_was_made(golden.machine, golden.file.string());
  return text;
}

}  // namespace resumecheck
