// One phase of one case, as handed to every rank that runs it, C++ or Python: a JSON file. A save
// run trains, saves and continues; a resume run builds anew (from other initial values, so that
// nothing can be right by accident), loads and continues on its own mesh. Both leave a state file a
// rank for each step that is compared:
//   save_run:   states/step<k>/ for k = 0 (fresh), save_after - 1, save_after, ..., train_until
//   resume_run: states/step<k>/ for k = save_after (right after the load), ..., train_until
// and exit_rank<k>.json, progress_rank<k> in `records`.
//
// {"schema": 1, "phase": "save_run" | "resume_run", "case": NAME, "adapter": "torchao", "options":
// {"wrap": "fsdp2"},
//  "mesh": "dp4", "dims": [["dp", 4]], "device": "cpu", "settings": {"seed": 1, "init_seed": 1,
//    "parameters": {"ffn.up": [512, 256]}, "param_dtype": "fp32",
//    "master_dtype": "", "model": {"kind": "", "layers": 2, "width": 24, "hidden": 48,
//              "tied": false, "experts": 0, "dropout": 0.0, "frozen": [], "frozen_from": 1,
//              "frozen_until": 0},
//    "fp8": {"recipe": "", "amax_history_len": 16, "amax_compute_algo": "max", "margin": 0,
//            "format": "hybrid", "update": "fused", "reduce_amax": true}, "optimizer": {"name":
//            "adamw8bit", "profile": "torchao_eager",
//                  "profile_after_save": "", "stochastic_rounding": false, "lr": 0.001, "betas":
//                  [0.9,
//    0.999], "eps": 1e-8,
//                  "weight_decay": 0.01, "block": 256, "min_quantised_elements": 4096,
//                  "groups": [{"parameters": ["*.bias"], "lr": 0.001, "weight_decay": 0.0}],
//                  "schedule": "", "schedule_steps": 0, "clip_norm": 0.0},
//    "loss_scale": {"initial": 0.0, "growth_interval": 2000, "largest": 65504.0},
//    "gradients": "order_free", "data": "by_step", "accumulate": 1, "save_after": 3,
//    "train_until": 6, "resumes": 1, "save_format": "dcp"},
//  "save_mesh": "dp2", "checkpoint": "/abs/folder", "next_checkpoint": "/abs/folder" or null,
//  "states": "/abs/folder", "records": "/abs/folder", "scenario_file": "/abs/x.py" or null,
//  "faults": [{"name": "kill_rank", "rank": 1, "at": "step 4"}], "limit_s": 120}
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/scenario/case.h"

namespace resumecheck {

struct PhaseRequest {
  std::string phase;  // "save_run" | "resume_run"
  std::string case_name;
  std::string adapter;
  std::map<std::string, Value> options;
  Mesh mesh;       // of this phase
  Mesh save_mesh;  // of the save run (equal to mesh there)
  std::string device = "cpu";
  Settings settings;
  std::uint64_t init_seed =
      1;  // settings.seed in the save run, settings.seed + 1 in the resume run
  std::filesystem::path checkpoint, states, records;
  std::filesystem::path next_checkpoint;  // of a resume that another follows: saved at its end
  std::filesystem::path scenario_file;    // empty unless the scenario is a .py
  std::vector<FaultSpec> faults;
  double limit_seconds = 120;
};

PhaseRequest save_run_request(
    const Case& c, const std::filesystem::path& folder);  // folder/{checkpoint,states,records}

// One, or as many in a row as the settings say: each but the last takes one step and saves, and
// every second one is on the mesh that saved first. Of each, settings.save_after is the step that
// it loads, and settings.train_until its last.
std::vector<PhaseRequest> resume_run_requests(const Case& c,
                                              const std::filesystem::path& save_folder,
                                              const std::filesystem::path& folder);
std::filesystem::path step_folder(const std::filesystem::path& states,
                                  std::int64_t step);  // states/step<k>

void write_phase_request(const std::filesystem::path& file, const PhaseRequest& request);
PhaseRequest read_phase_request(
    const std::filesystem::path& file);  // Error(harness) naming file and key

}  // namespace resumecheck
