# Scripts set torch's default dtype to bf16 to make bf16 models, and some do it only where they
# resume. What an optimizer creates without naming a dtype follows it: codebooks computed in bf16
# have other entries, scales and lr lose their last 16 bits. A load that copies codes into such a
# state has the right codes of the wrong codebook.
#
# /// scenario
# summary = "a run resumed under default dtype bf16 has the scales and codebooks that were saved"
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
# when = "torchao >= '0.12.0' and optimizer != 'adamwfp8'"
# symptom = "after_load: moment1.codebook of embed"
# origin = "none found"
#
# [[known_broken]]
# when = "torchao >= '0.12.0' and optimizer == 'adamwfp8'"
# symptom = "after_load: dtype of moment1.scale of embed: want F32, got BF16"
# origin = "none found"
# ///
"""Only the run that resumes has another default dtype, as a script changed in between does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from harness.adapters.python.torchao import Torchao


def build(original: Callable[[], None], run: Torchao) -> None:
    if not run.request.saves:
        torch.set_default_dtype(torch.bfloat16)
    original()
