# Runs are evaluated in bf16 now and then, often right before they save. A forward with FP8 off
# marks each module as having nothing to save: the scales are still there, the run goes on with
# them, and the checkpoint has none.
#
# /// scenario
# summary = "a checkpoint taken after an evaluation without FP8 has the FP8 state"
# labels = ["quick"]
# adapters = ["transformer_engine"]
#
# [model]
# kind = "layernorm_mlp"
#
# [fp8]
# recipe = "delayed"
# update = "unfused"
#
# [optimizer]
# name = "adamw"
#
# [run]
# gradients = "order_free"
# save_after = 3
# train_until = 5
# save_format = "torch_save"
#
# [[resume]]
# from = "dp2"
# onto = ["dp2"]
#
# [compare]
# parts = ["fp8"]
# oracles = ["after_load", "trajectory"]
#
# [[known_broken]]
# when = "transformer_engine >= '1.13'"
# symptom = "after_load: fp8.amax_history.backward of layers.0 is missing"
# origin = "none found"
# ///
"""Every module enters an autocast with FP8 off, as in an evaluation, before the save."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from harness.adapters.python.transformer_engine import TransformerEngine


def save(original: Callable[[Path], None], run: TransformerEngine, folder: Path) -> None:
    for module, layer in run.fp8_modules():
        with torch.no_grad(), run.autocast(run.recipe, enabled=False):
            layer.init_fp8_metadata(module.gemms)
    original(folder)
