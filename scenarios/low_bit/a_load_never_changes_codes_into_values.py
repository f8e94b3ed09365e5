# Loading copies what was saved into what is there, and copying between a quantised tensor and a
# plain one converts. A resume whose script names the other optimizer therefore starts from
# dequantised moments without a word. It may be wanted; then it can be asked for. What passes
# here is a refusal.
#
# /// scenario
# summary = "8-bit moments are not loaded into an optimizer with unquantised ones without a word"
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
# from = "dp2"
# onto = ["dp2"]
#
# [compare]
# parts = ["param", "moment1", "moment2", "step", "lr"]
# refusal = "load: "
#
# [[known_broken]]
# when = "torchao >= '0.12.0'"
# symptom = "was not refused: it loaded and trained to step 5"
# origin = "pytorch/ao#4912"
# ///
"""The run that saves has 8-bit moments, the one that resumes unquantised ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.adapters.python.torchao import Torchao


def build(original: Callable[[], None], run: Torchao) -> None:
    original()
    if not run.request.saves:
        other = dataclasses.replace(run.first_optimizer, name="adamw")
        run.optimizer = run.optimizer_for(run.model, other)
