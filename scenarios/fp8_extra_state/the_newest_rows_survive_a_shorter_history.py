# A history that is made shorter should forget what is oldest. Row 1 is the oldest and the last
# row the newest, and what is kept are the first rows: the newest amaxes go, and the scale follows
# one that lies many steps back.
#
# /// scenario
# summary = "a shorter amax history keeps the newest amaxes"
# labels = ["quick"]
# adapters = ["transformer_engine"]
#
# [model]
# kind = "layernorm_mlp"
#
# [fp8]
# recipe = "delayed"
# update = "unfused"
# amax_history_len = 8
#
# [optimizer]
# name = "adamw"
#
# [run]
# gradients = "order_free"
# save_after = 9
# train_until = 10
# save_format = "torch_save"
#
# [[resume]]
# from = "dp1"
# onto = ["dp1"]
#
# [compare]
# parts = ["fp8"]
# oracles = ["after_load"]
#
# [[known_broken]]
# when = "transformer_engine >= '1.13'"
# symptom = "a shorter history kept the oldest rows"
# origin = "none found"
# ///
"""The recipe of the resume has fewer rows; the state that was loaded says what they must hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from harness.adapters.python.transformer_engine import TransformerEngine

ROWS = 4


def step(original: Callable[[int], None], run: TransformerEngine, number: int) -> None:
    if run.request.saves:
        original(number)
        return
    before = {module.name: history_of(layer) for module, layer in run.fp8_modules()}
    run.recipe = run.recipe_with(amax_history_len=ROWS)
    original(number)
    for module, layer in run.fp8_modules():
        # Rolled by one: the newest row is this step's, the others are the newest there were.
        kept, rows = history_of(layer)[1:-1], before[module.name]
        if torch.equal(kept, rows[-(ROWS - 2) :]):
            continue
        if torch.equal(kept, rows[2:ROWS]):
            raise AssertionError(f"{module.name}: a shorter history kept the oldest rows")
        raise AssertionError(f"{module.name}: a shorter history kept other rows")


def history_of(layer: object) -> torch.Tensor:
    return layer.fp8_meta["scaling_fwd"].amax_history.clone()
