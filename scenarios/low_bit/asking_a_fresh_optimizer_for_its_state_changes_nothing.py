# A fresh optimizer has no state to load into, so get_optimizer_state_dict takes a step with zero
# gradients and a zero lr to make some, and leaves it there. The weights stay; but a run that
# saves before its first step, or is only asked, then counts one step more than it took, and
# every bias correction after that is another one.
#
# /// scenario
# summary = "get_optimizer_state_dict on a fresh optimizer does not change the run"
# origin = ["pytorch/pytorch#125708"]
# labels = ["quick"]
# adapters = ["torchao"]
#
# [model]
# embed = [64, 256]
# norm = [512]           # below 4096 elements: unquantised
#
# [optimizer]
# name = "adamw8bit"
# profile = "torchao_eager"
#
# [run]
# gradients = "order_free"
# save_after = 3
# train_until = 5
#
# [[resume]]
# from = "dp1"
# onto = ["dp1"]
#
# [compare]
# parts = ["param", "moment1", "moment2", "step", "lr"]
# oracles = ["after_load", "trajectory"]
#
# [[known_broken]]
# when = "torchao >= '0.12.0'"
# symptom = "save_run step 1: step 1 of the run counts as 2"
# origin = "none found"
# ///
"""Asks once before the first step, and looks at the count after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict

if TYPE_CHECKING:
    from harness.adapters.python.torchao import Torchao


def build(original: Callable[[], None], run: Torchao) -> None:
    original()
    if run.request.saves:
        get_optimizer_state_dict(run.model, run.optimizer)


def step(original: Callable[[int], None], run: Torchao, number: int) -> None:
    original(number)
    for state in run.optimizer.state.values():
        if state["step"] != number:
            raise ValueError(f"step {number} of the run counts as {int(state['step'])}")
