# Trainers keep the best state so far by deep-copying the state dict, and asynchronous savers
# stage it the same way. A tensor class that cannot be cloned makes that fail far from any
# checkpoint, in the middle of a training run.
#
# /// scenario
# summary = "copy.deepcopy of an optimizer's state dict works, and changes nothing"
# labels = ["quick"]
# adapters = ["torchao"]
#
# [vary]
# "optimizer.name" = ["adamw8bit", "adamw4bit", "adamwfp8"]
#
# [model]
# embed = [64, 256]
# norm = [512]           # below 4096 elements: unquantised
#
# [optimizer]
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
# symptom = "unimplemented operator/function: func=<OpOverload(op='aten.clone'"
# origin = "none found"
# ///
"""Deep-copies the state dict before the checkpoint is written."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.adapters.python.torchao import Torchao


def save(original: Callable[[Path], None], run: Torchao, folder: Path) -> None:
    copy.deepcopy(run.optimizer.state_dict())
    original(folder)
