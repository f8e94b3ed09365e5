# Settings of a run are changed while it goes on, the length of the amax history among them. The
# modules cut theirs; of the buffers through which amaxes are reduced, each direction is then
# given the other one's history.
#
# /// scenario
# summary = "a run whose recipe gets a shorter amax history takes its next step"
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
# symptom = "The size of tensor a (4) must match the size of tensor b (6)"
# origin = "none found"
# ///
"""From the first step behind the save on, the recipe has fewer rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.adapters.python.transformer_engine import TransformerEngine

ROWS = 4


def step(original: Callable[[int], None], run: TransformerEngine, number: int) -> None:
    if number > run.settings.save_after:
        run.recipe = run.recipe_with(amax_history_len=ROWS)
    original(number)
