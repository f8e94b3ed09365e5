# What people whose resume fails can do today. The state that was loaded is right, only its
# distributed tensors carry two different dtypes; built again from their own shards they carry one.
# A cast does not help: it finds the dtype it wants and does nothing. If this stops passing, the
# advice is wrong for that release.
#
# /// scenario
# summary = "building each distributed tensor again after the load lets bf16 training go on"
# origin = ["pytorch/ao#3314"]
# labels = ["quick"]
# adapters = ["torchao"]
# param_dtype = "bf16"
#
# [model]
# embed = [256, 256]
# norm = [512]
#
# [optimizer]
# name = "adamw8bit"
# profile = "torchao_eager"
#
# [run]
# gradients = "order_free"
# save_after = 3
# train_until = 6
#
# [[resume]]
# from = "dp2"
# onto = ["dp2", "dp1"]
#
# [compare]
# parts = ["param", "moment1", "moment2", "step", "lr"]
# oracles = ["after_load", "trajectory", "golden"]
#
# [[known_broken]]
# when = "torchao >= '0.17.0'"
# symptom = "save_run step 1: expected dtype torch.bfloat16 for `end`, but got dtype torch.float32"
# origin = "pytorch/ao#4216"
# ///
"""Loads as torchao's users do, then gives each moment a new DTensor around the same shard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from torch.distributed.tensor import DTensor

if TYPE_CHECKING:
    from harness.adapters.python.torchao import Torchao


def load(original: Callable[[Path], None], run: Torchao, folder: Path) -> None:
    original(folder)
    for state in run.optimizer.state.values():
        for name, value in state.items():
            if isinstance(value, DTensor):
                state[name] = rebuilt(value)


def rebuilt(value: DTensor) -> DTensor:
    """The same shard, mesh and placements; both dtypes now come from the shard."""
    return DTensor.from_local(
        value.to_local(),
        value.device_mesh,
        value.placements,
        run_check=False,
        shape=value.shape,
        stride=value.stride(),
    )
