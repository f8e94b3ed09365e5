// A scenario is one TOML document that states a property of a resume, in one of three carriers
// (.toml, the comment block of a .py, the comment block of a .cpp). The schema is strict: an
// unknown key, a mesh that does not fit, an option that the adapter does not declare is an
// Error(usage) naming file and line.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/scenario/mesh.h"
#include "harness/scenario/settings.h"
#include "harness/state/logical_state.h"

namespace resumecheck {

struct FaultSpec {  // a defect of the reference's save and load, or something that happens to a
                    // rank
  std::string name;
  std::optional<int> rank;  // nothing: the fault's own default
  std::string at;           // for rank faults: "save_run step 2", "save", "load", "step 5"
};

struct KnownBroken {
  std::string when;  // expression
  std::string symptom;
  std::string origin;
  std::string where;  // file:line, for messages
};

struct ResumePlan {
  Mesh from;
  std::vector<Mesh> onto;
  // "" = any environment, the same for both phases; a name; or "*": each that has the adapter's
  // package. With both given: saved under one, loaded under the other, "*" and "*" every pair.
  std::string save_env;
  std::string load_env;
  std::size_t entry = 0;  // the [[resume]] that plans it; one may name several meshes to save on
};

struct Scenario {
  std::string
      name;  // "adamw8bit/moments_survive_mesh_change": path below scenarios/ without its ending
  std::filesystem::path file;
  std::string carrier;  // "toml" | "py" | "cpp"
  std::string variant;  // of [vary]: "adamw4bit,bf16,full"; "" where the file varies nothing
  std::vector<std::pair<std::string, std::string>>
      choices;  // the same: "optimizer.name" -> "adamw4bit"
  std::string summary;
  std::vector<std::string> origin;
  std::vector<std::string> labels;
  std::vector<std::string> adapters;
  std::map<std::string, std::map<std::string, Value>>
      adapter_options;  // adapter -> option -> value
  Settings settings;    // save_format is "" where the scenario gives none: see Case::settings()
  std::vector<ResumePlan> resumes;
  std::vector<std::string> parts;  // compare.parts
  std::vector<std::string>
      oracles;          // after_load, trajectory, golden; none where a refusal is asked
  std::string refusal;  // "load: text": the resume must fail so, and nothing else passes
  std::vector<FaultSpec> faults;
  std::vector<KnownBroken> known_broken;
  std::vector<std::string> requirements;  // requires[]
};

// `name_root`: the folder below which the path is the name; a file outside it is named by its own
// stem, "stem/stem"-less: "mine/train.py" given on the command line is scenario "train". One
// Scenario for each combination of [vary], all of one name.
std::vector<Scenario> read_scenario(const std::filesystem::path& file,
                                    const std::filesystem::path& name_root);

// Every scenario below a folder, sorted by name, the variants of one in the order of its [vary]. A
// file that is neither a scenario nor known is an error, so that no scenario can be left out by a
// misspelt ending.
std::vector<Scenario> read_scenarios(const std::filesystem::path& root);

// What the core program knows of each adapter without starting it (native or python, options, save
// formats, parts).
struct AdapterDeclaration {
  std::string name;
  bool native = false;    // runs in resumecheck-mpi
  std::string package;    // a Python adapter runs in environments that have this package; "" = any
  bool compiles = false;  // with a torchao_compiled profile: needs a C++ compiler at run time
  std::map<std::string, std::vector<std::string>>
      options;  // option -> allowed values, the first being the default (empty list: any)
  std::vector<std::string> save_formats;  // the first is the default
  std::vector<std::string> parts;
  std::vector<std::string> mesh_dims;
  std::vector<std::string> optimizers;
  std::vector<std::string> models;       // model.kind; none: names and shapes only
  bool needs_model = false;              // true: cannot train names and shapes
  std::int64_t whole_width = 1;          // of computed gradients: width and hidden, and the samples
  std::int64_t whole_samples = 1;        // of a micro-batch, must be multiples of these
  std::vector<std::string> fp8_recipes;  // none: no [fp8]
  std::vector<std::string> gradients = {"order_free"};
  std::vector<std::string> features;  // of features_of(): what it can do beyond the plain
  std::vector<std::string> defects;   // deliberate mistakes that [[fault]] can switch on
};
const std::vector<AdapterDeclaration>& adapter_declarations();
const AdapterDeclaration& adapter_declaration(
    std::string_view name);  // Error(usage) for an unknown one

const std::vector<std::string>& optimizer_names();  // of any adapter
const std::vector<std::string>& profile_names();

// What can happen to a rank under any adapter: kill_rank, hang_rank, ...
const std::vector<std::string>& rank_fault_names();

// When: "save_run step 2" | "save" | "load" | "step 5".
bool is_moment(std::string_view at);

}  // namespace resumecheck
