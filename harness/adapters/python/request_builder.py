"""Phase requests for the tests, as the harness writes them."""

import json
import re
from pathlib import Path

SETTINGS = {
    "seed": 1,
    "parameters": {"ffn.up": [7, 4], "norm": [5]},
    "param_dtype": "fp32",
    "master_dtype": "",
    "model": {
        "kind": "",
        "layers": 2,
        "width": 24,
        "hidden": 48,
        "tied": False,
        "experts": 0,
        "dropout": 0.0,
        "frozen": [],
        "frozen_from": 1,
        "frozen_until": 0,
    },
    "fp8": {
        "recipe": "",
        "amax_history_len": 16,
        "amax_compute_algo": "max",
        "margin": 0,
        "format": "hybrid",
        "update": "fused",
        "reduce_amax": True,
    },
    "optimizer": {
        "name": "sgd",
        "profile": "canonical",
        "lr": 0.001,
        "betas": [0.9, 0.999],
        "eps": 1e-8,
        "weight_decay": 0.01,
        "block": 256,
        "min_quantised_elements": 4096,
        "stochastic_rounding": False,
        "profile_after_save": "",
        "groups": [],
        "schedule": "",
        "schedule_steps": 0,
        "clip_norm": 0.0,
    },
    "loss_scale": {"initial": 0.0, "growth_interval": 2000, "largest": 65504.0},
    "gradients": "order_free",
    "data": "by_step",
    "accumulate": 1,
    "save_after": 3,
    "train_until": 5,
    "resumes": 1,
    "save_format": "native",
}


def write_request(folder: Path, **changes) -> Path:
    """folder/phase_request.json; changes: keys of the request or of its settings."""
    phase, mesh = changes.get("phase", "save_run"), changes.get("mesh", "dp1")
    request = {
        "schema": 1,
        "phase": phase,
        "case": "test/case[plain_python]",
        "adapter": "plain_python",
        "options": {},
        "mesh": mesh,
        "dims": [[name, int(size)] for name, size in re.findall(r"([a-z]+)(\d+)", mesh)],
        "device": "cpu",
        "settings": {**SETTINGS, "init_seed": 1 if phase == "save_run" else 2},
        "save_mesh": mesh,
        "checkpoint": str(folder / "checkpoint"),
        "next_checkpoint": None,
        "states": str(folder / "states"),
        "records": str(folder / "records"),
        "scenario_file": None,
        "faults": [],
        "limit_s": 60,
    }
    for key, value in changes.items():
        (request["settings"] if key in SETTINGS else request)[key] = value
    (folder / "records").mkdir(parents=True, exist_ok=True)
    file = folder / "phase_request.json"
    file.write_text(json.dumps(request))
    return file
