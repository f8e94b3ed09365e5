# Optimizer.load_state_dict copies only where it has to cast, so that where dtypes and devices
# agree two optimizers go on in one memory: whoever keeps a frozen copy by loading it into a
# second optimizer has one that moves with the first. Nothing shows it until the source takes a
# step; here it takes one right after the load.
#
# /// scenario
# summary = "an optimizer that loaded a state dict keeps its state when the other one goes on"
# origin = ["pytorch/pytorch#196083"]
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
# save_format = "state_dict"
#
# [[resume]]
# from = "dp2"
# onto = ["dp2"]
#
# [compare]
# parts = ["param", "moment1", "moment2", "step", "lr"]
# oracles = ["after_load", "trajectory"]
#
# [[known_broken]]
# when = "torchao >= '0.12.0'"
# symptom = "after_load: moment1.codes of embed: 64 of 64 blocks differ"
# origin = "pytorch/pytorch#196083"
# ///
"""Loads inside the process, then lets the optimizer that was loaded from take its next step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.adapters.python.torchao import Torchao


def load(original: Callable[[Path], None], run: Torchao, folder: Path) -> None:
    original(folder)
    run.train(*run.source, run.settings.save_after + 1)
