// Goldens: digests of the logical state the reference computes, with their origin. A golden that
// does not belong to the scenario as it is now must never be compared with; one that was edited by
// hand must not be believed.
// golden/<name>.json, where the name is golden_name()'s:
// {"schema": 1, "scenario": NAME, "profile": P, "made_by": {...machine, date, reason},
//  "confirmed_on": [{"device": "cpu", "isa": "avx512", ...}], "settings_digest": D, "digest": D,
//  "steps": {"3": {"ffn.up/moment1.codes": {"dtype": "U8", "shape": [512, 256], "digest": D}}}}
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"

namespace resumecheck {

struct GoldenTensor {
  std::string dtype;
  Shape shape;
  std::string digest;
  bool operator==(const GoldenTensor&) const = default;
};

// What computed the same bits: a device ("cpu", "cuda") and its capability ("avx2", a GPU's name).
struct GoldenConfirmation {
  std::string device, isa, date, driver;  // driver: of a GPU, else ""
};

struct Golden {
  std::filesystem::path file;
  std::string scenario, profile, settings_digest, digest;
  std::map<std::int64_t, std::map<TensorKey, GoldenTensor>> steps;  // save_after .. train_until
  std::string machine;                                              // JSON object: who made it
  std::string date, reason;
  std::vector<GoldenConfirmation> confirmed_on;
};

std::string settings_digest(const Settings& settings);  // of everything that decides the bits
// name: golden_name() of the scenario, which tells the variants that compute other bits apart.
std::filesystem::path golden_file(const std::filesystem::path& root, const std::string& name);

// Nothing where there is no golden; Error(harness) for one that cannot be read or was edited,
// Error(harness) naming `resumecheck golden update` for one whose settings_digest is another
// scenario's.
std::optional<Golden> read_golden(const std::filesystem::path& root, const Scenario& scenario);
// The same, whatever settings it was made for: what `golden update` says that it changes.
std::optional<Golden> read_golden_of_any_settings(const std::filesystem::path& root,
                                                  const Scenario& scenario);

// Of states as reference_states() gives them; only the steps from save_after on are kept.
Golden make_golden(const std::filesystem::path& root, const Scenario& scenario,
                   const std::map<std::int64_t, LogicalState>& states);
void write_golden(const Golden& golden);

struct GoldenDifference {
  std::int64_t step = 0;
  TensorKey key;
  std::string what;  // "want U8 [512, 256] 1234.., got 5678.."
};
// In the order of steps, then tensors. Empty: the same.
std::vector<GoldenDifference> differences(const Golden& want, const Golden& got);

}  // namespace resumecheck
