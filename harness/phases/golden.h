// Goldens: digests of the logical state the reference computes, with their origin.
// golden/<scenario>.json:
// {"schema": 1, "scenario": NAME, "profile": P, "made_by": {...commit, compiler, flags, cpu, date,
// reason},
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
};

struct Golden {
  std::filesystem::path file;
  std::string scenario, profile, settings_digest, digest;
  std::map<std::int64_t, std::map<TensorKey, GoldenTensor>> steps;
};

std::string settings_digest(const Settings& settings);  // of everything that decides the bits
std::filesystem::path golden_file(const std::filesystem::path& root, const std::string& scenario);

// Nothing where there is no golden; Error(harness) for one that cannot be read, Error(harness)
// naming `resumecheck golden update` for one whose settings_digest is another scenario's.
std::optional<Golden> read_golden(const std::filesystem::path& root, const Scenario& scenario);

}  // namespace resumecheck
