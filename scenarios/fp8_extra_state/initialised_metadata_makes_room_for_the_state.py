# The second thing that is tried: let the new module make its FP8 state first, so that its extra
# state is as long as the saved one. The length is that of a pickle in which four addresses stand
# in decimal, each twice, so it is equal only as long as both heaps give addresses of as many
# digits. Here they do not: the state that is loaded into is made in a thread, whose heap lies
# elsewhere.
#
# /// scenario
# summary = "a module with initialised FP8 state loads a trained one's, whatever the heap"
# origin = ["NVIDIA/TransformerEngine#1860"]
# labels = ["quick"]
# adapters = ["transformer_engine"]
#
# [adapter_options.transformer_engine]
# before_load = "init_fp8_metadata"
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
# save_format = "dcp"
#
# [[resume]]
# from = "dp2"
# onto = ["dp2"]
#
# [compare]
# parts = ["fp8", "param", "moment1", "moment2", "step", "lr"]
# oracles = ["after_load", "trajectory"]
#
# [[known_broken]]
# when = "transformer_engine >= '2.1'"
# symptom = "Size mismatch between saved torch.Size(["
# origin = "NVIDIA/TransformerEngine#1860"
# ///
"""Each extra state of the model that is loaded into is made by a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

    from harness.adapters.python.transformer_engine import TransformerEngine


def load(original: Callable[[Path], None], run: TransformerEngine, folder: Path) -> None:
    for _, layer in run.fp8_modules():
        layer.get_extra_state = made_by_a_thread(layer)
    original(folder)


def made_by_a_thread(layer: nn.Module) -> Callable[[], object]:
    get = layer.get_extra_state

    def get_extra_state() -> object:
        made = []
        thread = threading.Thread(target=lambda: made.append(get()))
        thread.start()
        thread.join()
        return made[0]

    return get_extra_state
