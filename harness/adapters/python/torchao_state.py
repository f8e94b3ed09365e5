"""The state of a torchao optimizer on one rank, told as found: each moment quantised or plain, as
this rank's own shard has it, never normalised and never dequantised. Codes of four bits alone are
spread to one byte each, as the harness compares them; every bit of them stays.
"""

from __future__ import annotations

import hashlib
import math

import torch
from torch.distributed.tensor import DTensor
from torchao.optim.subclass_4bit import OptimState4bit

from harness.adapters.python.state_file import Piece
from harness.adapters.python.torch_state import (
    NAME_OF,
    bytes_of,
    cut_as,
    local_of,
    offsets_of,
    whole_here,
)
from harness.adapters.python.torchao_settings import one_byte_a_code

PART_OF = {"exp_avg": "moment1", "exp_avg_sq": "moment2"}


def pieces_of(name: str, parameter: torch.Tensor, state: dict) -> list[Piece]:
    """A parameter and what the optimizer keeps of it."""
    pieces = cut_as(parameter, name, "param", parameter.detach())
    for key, value in state.items():
        if key in PART_OF:
            pieces += _moment(name, PART_OF[key], value, parameter)
        else:
            pieces.append(whole_here(name, key, value))
    return pieces


def notes_of(name: str, parameter: torch.Tensor, state: dict) -> list[str]:
    """What no value shows after a load: a DTensor carries two dtypes, its own and its spec's, and
    a load can leave them different (pytorch/ao#3314); a shard can begin inside a block."""
    notes = []
    for key, value in state.items():
        if key not in PART_OF or not isinstance(value, DTensor):
            continue
        notes.append(
            f"{PART_OF[key]} of {name}: DTensor dtype {value.dtype}, "
            f"spec dtype {value._spec.tensor_meta.dtype}"
        )
        block = getattr(local_of(value), "block_size", 0)
        if block and _first_element(parameter) % block:
            notes.append(f"{PART_OF[key]} of {name}: the shard starts inside a block of {block}")
    return notes


def generator_digest() -> str:
    """Of torch's CPU generator, which the next stochastic rounding draws from."""
    return hashlib.sha256(bytes_of(torch.get_rng_state())).hexdigest()


def _moment(name: str, part: str, value: torch.Tensor, parameter: torch.Tensor) -> list[Piece]:
    local = local_of(value)
    if not hasattr(local, "codes"):
        return cut_as(parameter, name, f"{part}.values", local)
    block, codes = local.block_size, bytes_of(local.codes)
    if isinstance(local, OptimState4bit):
        codes = one_byte_a_code(codes)
    pieces = [
        Piece(
            name,
            f"{part}.codes",
            NAME_OF[local.codes.dtype],
            tuple(parameter.shape),
            offsets_of(parameter),
            tuple(local.shape),
            codes,
            block,
        ),
        Piece(
            name,
            f"{part}.scale",
            NAME_OF[local.scale.dtype],
            (-(-parameter.numel() // block),),
            (_first_element(parameter) // block,),
            tuple(local.scale.shape),
            bytes_of(local.scale),
            block,
        ),
    ]
    codebook = getattr(local, "qmap", None)  # FP8 codes are numbers and have none
    if codebook is not None:
        pieces.append(whole_here(name, f"{part}.codebook", codebook))
    return pieces


def _first_element(parameter: torch.Tensor) -> int:
    """Of this rank's rows, in the flattened parameter."""
    return offsets_of(parameter)[0] * math.prod(parameter.shape[1:])
