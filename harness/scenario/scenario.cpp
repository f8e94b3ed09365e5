#include "harness/scenario/scenario.h"

#include <algorithm>
#include <map>

#include "harness/scenario/carrier.h"
#include "harness/scenario/schema.h"
#include "harness/scenario/variants.h"
#include "harness/state/error.h"
#include "harness/state/file.h"

namespace resumecheck {
namespace {

namespace fs = std::filesystem;

// Relative to the current folder where the file lies below it, so that a terminal can open it.
std::string shown_path(const fs::path& file) {
  std::error_code failed;
  const fs::path relative = fs::proximate(file, failed);
  const bool below = !failed && !relative.empty() && *relative.begin() != "..";
  return below ? relative.string() : file.string();
}

std::string scenario_name(const fs::path& file, const fs::path& name_root) {
  const fs::path relative = fs::absolute(file).lexically_normal().lexically_relative(
      fs::absolute(name_root / "").lexically_normal());
  const bool below = !name_root.empty() && !relative.empty() && *relative.begin() != "..";
  fs::path name = below ? relative : file.filename();
  return name.replace_extension().generic_string();
}

void check_name(const std::string& name, const std::string& shown) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '/';
  });
  if (!plain || name.empty()) {
    throw Error(Error::Kind::usage, shown,
                "the name of a scenario is its path, and this one holds "
                "characters that names must not hold",
                "use letters, digits, _ - and .");
  }
}

bool is_scenario_ending(const fs::path& file) {
  const std::string ending = file.extension();
  return ending == ".toml" || ending == ".py" || ending == ".cpp";
}

// Documents for people, and what editors and Python leave behind.
bool is_no_scenario_by_right(const fs::path& file) {
  const std::string name = file.filename();
  return name.front() == '.' || file.extension() == ".md" || file.extension() == ".pyc";
}

std::vector<fs::path> scenario_files(const fs::path& root) {
  std::vector<fs::path> files;
  for (auto entry = fs::recursive_directory_iterator(root);
       entry != fs::recursive_directory_iterator(); ++entry) {
    const fs::path& file = entry->path();
    if (entry->is_directory()) {
      if (file.filename() == "__pycache__" || file.filename().string().front() == '.') {
        entry.disable_recursion_pending();
      }
    } else if (is_scenario_ending(file)) {
      files.push_back(file);
    } else if (!is_no_scenario_by_right(file)) {
      throw Error(Error::Kind::usage, shown_path(file), "is no scenario file",
                  "scenarios end in .toml, .py or .cpp; move anything else elsewhere");
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

struct Source {
  std::string shown, name, carrier;
};

Scenario read_variant(const Variant& variant, const Source& source) {
  Scenario scenario = scenario_from(variant.document, source.shown, source.name, source.carrier);
  scenario.variant = variant_text(variant.choices);
  scenario.choices = variant.choices;
  return scenario;
}

std::string problem_of(const Variant& variant, const Source& source) {
  try {
    read_variant(variant, source);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

// What is wrong in some combinations only says in which.
std::vector<Scenario> read_variants(const std::vector<Variant>& variants, const Source& source) {
  std::vector<Scenario> scenarios;
  for (const Variant& variant : variants) {
    try {
      scenarios.push_back(read_variant(variant, source));
    } catch (const Error& error) {
      const bool always = std::all_of(variants.begin(), variants.end(), [&](const Variant& other) {
        return problem_of(other, source) == error.what();
      });
      if (always) throw;
      throw Error(error.kind(), error.where(),
                  error.problem() + " (as " + variant_text(variant.choices) + ")", error.cure());
    }
  }
  return scenarios;
}

}  // namespace

std::vector<Scenario> read_scenario(const fs::path& file, const fs::path& name_root) {
  const std::string shown = shown_path(file);
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) {
    throw Error(Error::Kind::usage, shown, "there is no such scenario file", "check the path");
  }
  const std::string name = scenario_name(file, name_root);
  check_name(name, shown);
  const Carried carried = cut_out_scenario(file, read_file(file), shown);
  const TomlNode document = parse_toml(carried.toml, shown, carried.columns_removed);
  std::vector<Scenario> scenarios =
      read_variants(variants_of(document, shown), {shown, name, carried.carrier});
  for (Scenario& scenario : scenarios) scenario.file = fs::absolute(file).lexically_normal();
  return scenarios;
}

std::vector<Scenario> read_scenarios(const fs::path& root) {
  std::error_code ignored;
  if (!fs::is_directory(root, ignored)) {
    throw Error(Error::Kind::usage, root.string(), "there is no such folder of scenarios",
                "run inside a checkout or set RESUMECHECK_ROOT");
  }
  std::vector<Scenario> scenarios;
  std::map<std::string, std::string> files;
  for (const fs::path& file : scenario_files(root)) {
    const std::vector<Scenario> variants = read_scenario(file, root);
    scenarios.insert(scenarios.end(), variants.begin(), variants.end());
    const auto [first, added] = files.emplace(variants.front().name, shown_path(file));
    if (!added) {
      throw Error(Error::Kind::usage, shown_path(file), "has the same name as " + first->second,
                  "rename one of them");
    }
  }
  std::stable_sort(
      scenarios.begin(), scenarios.end(),
      [](const Scenario& left, const Scenario& right) { return left.name < right.name; });
  return scenarios;
}

}  // namespace resumecheck
