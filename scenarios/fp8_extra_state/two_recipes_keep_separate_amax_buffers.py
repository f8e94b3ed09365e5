# Amaxes are gathered in buffers, one a recipe, and the buffer's name leaves out some of the
# recipe's settings. Two recipes that differ in these alone share one, and all modules in it are
# updated by the recipe that was entered last.
#
# /// scenario
# summary = "modules under two recipes are each updated by their own"
# labels = ["quick"]
# adapters = ["transformer_engine"]
#
# [model]
# kind = "layernorm_mlp"
#
# [fp8]
# recipe = "delayed"
# update = "unfused"
# amax_history_len = 4
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
# from = "dp1"
# onto = ["dp1"]
#
# [compare]
# parts = ["fp8"]
# oracles = ["after_load", "trajectory"]
#
# [[known_broken]]
# when = "transformer_engine >= '1.13'"
# symptom = "scaled by the recipe of another module"
# origin = "none found"
# ///
"""The last module follows its newest amax, the others the largest: seen in their scales."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from harness.adapters.python.transformer_engine import TransformerEngine

LARGEST = {"scaling_fwd": 448.0, "scaling_bwd": 57344.0}


def build(original: Callable[[], None], run: TransformerEngine) -> None:
    original()
    newest = run.recipe_with(amax_compute_algo="most_recent")
    last = run.settings.model.layers - 1

    def recipe_of(module: object) -> object:
        return newest if module.ordinal == last else run.recipe

    run.recipe_of = recipe_of


def step(original: Callable[[int], None], run: TransformerEngine, number: int) -> None:
    before = {(m.name, d): history_of(layer, d) for m, layer in run.fp8_modules() for d in LARGEST}
    original(number)
    for module, layer in run.fp8_modules():
        for direction, largest in LARGEST.items():
            newest = history_of(layer, direction)[-1:]
            # The oldest row left after it was looked at.
            rows = torch.cat([before[module.name, direction][1:], newest])
            scales = {"max": scale_of(rows, largest), "most_recent": scale_of(newest, largest)}
            wanted = scales.pop(run.recipe_of(module).amax_compute_algo)
            found = layer.fp8_meta[direction].scale
            if torch.equal(found, wanted):
                continue
            if torch.equal(found, *scales.values()):
                raise AssertionError(f"{module.name}: scaled by the recipe of another module")
            raise AssertionError(f"{module.name}: scaled by no recipe of the two")


def history_of(layer: object, direction: str) -> torch.Tensor:
    """Nothing before the first step."""
    history = getattr(layer.fp8_meta.get(direction), "amax_history", None)
    return torch.empty(0) if history is None else history.clone()


def scale_of(rows: torch.Tensor, largest: float) -> torch.Tensor:
    amax = rows.amax(0)
    return torch.where(amax > 0, largest / amax, torch.ones(()))
