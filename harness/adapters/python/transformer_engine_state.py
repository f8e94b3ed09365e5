"""The FP8 state of Transformer Engine's modules, told as it lies in their memory: scales and amax
history of both directions, scale_inv where a release keeps it (1.x), and the recipe in words.

It is never read out of `_extra_state`: what a module gives there can be empty or old while the
module itself computes with something else, and that difference is what the cases are about.
"""

from __future__ import annotations

import torch
from torch import nn

from harness.adapters.python.extra_state import recipe_line
from harness.adapters.python.state_file import Piece, whole
from harness.adapters.python.torch_state import bytes_of, cut_as, whole_here

DIRECTIONS = {"scaling_fwd": "forward", "scaling_bwd": "backward"}
FIELDS = ("scale", "amax_history", "scale_inv")
PART_OF = {"exp_avg": "moment1.values", "exp_avg_sq": "moment2.values"}


def fp8_pieces(name: str, module: nn.Module) -> list[Piece]:
    """Of one FP8 module; none before it has any state."""
    pieces = []
    for key, direction in DIRECTIONS.items():
        meta = module.fp8_meta.get(key)
        for field in FIELDS:
            value = getattr(meta, field, None)
            if isinstance(value, torch.Tensor):
                part = f"fp8.{field}.{direction}"
                pieces.append(whole(name, part, "F32", value.shape, bytes_of(value)))
    return pieces


def recipe_words(module: nn.Module) -> str:
    """The recipe that the module would take its next step with; empty before it has one."""
    recipe = module.fp8_meta.get("recipe")
    if recipe is None or not module.fp8_meta.get("scaling_fwd"):
        return ""
    kind = type(recipe).__name__
    if kind != "DelayedScaling":
        return recipe_line({"recipe": kind})
    return recipe_line(
        {
            "recipe": "delayed",
            "amax_history_len": recipe.amax_history_len,
            "amax_compute_algo": recipe.amax_compute_algo,
            "fp8_format": recipe.fp8_format.name.lower(),
            "margin": recipe.margin,
        }
    )


def parameter_pieces(name: str, parameter: torch.Tensor, state: dict) -> list[Piece]:
    """A parameter and what the optimizer keeps of it."""
    pieces = cut_as(parameter, name, "param", parameter.detach())
    for key, value in state.items():
        if key in PART_OF:
            pieces += cut_as(parameter, name, PART_OF[key], value)
        else:
            pieces.append(whole_here(name, key, value))
    return pieces
