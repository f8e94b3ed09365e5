"""The state of a torchao optimizer on one rank, told as found: each moment quantised or plain, as
this rank's own shard has it, never normalised and never dequantised. Codes of four bits alone are
spread to one byte each, as the harness compares them; every bit of them stays.

Boxes come from DTensor's own layout. A plain tensor beside DTensors is whole on every rank, and
whoever computes its box from the mesh gives each rank a part of it that it does not hold.
"""

from __future__ import annotations

import ctypes
import hashlib
import math

import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torchao.optim.subclass_4bit import OptimState4bit

from harness.adapters.python.state_file import Piece, whole
from harness.adapters.python.torchao_settings import one_byte_a_code

NAME_OF = {
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.uint8: "U8",
    torch.int64: "I64",
}
PART_OF = {"exp_avg": "moment1", "exp_avg_sq": "moment2"}


def pieces_of(name: str, parameter: torch.Tensor, state: dict) -> list[Piece]:
    """A parameter and what the optimizer keeps of it."""
    pieces = _cut_as(parameter, name, "param", parameter.detach())
    for key, value in state.items():
        if key in PART_OF:
            pieces += _moment(name, PART_OF[key], value, parameter)
        else:
            local = local_of(value)
            pieces.append(whole(name, key, NAME_OF[local.dtype], local.shape, bytes_of(local)))
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


def local_of(value: torch.Tensor) -> torch.Tensor:
    return value.to_local() if isinstance(value, DTensor) else value


def bytes_of(tensor: torch.Tensor) -> bytes:
    tensor = tensor.detach().contiguous().cpu()
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def _moment(name: str, part: str, value: torch.Tensor, parameter: torch.Tensor) -> list[Piece]:
    local = local_of(value)
    if not hasattr(local, "codes"):
        return _cut_as(parameter, name, f"{part}.values", local)
    block, codes = local.block_size, bytes_of(local.codes)
    if isinstance(local, OptimState4bit):
        codes = one_byte_a_code(codes)
    pieces = [
        Piece(
            name,
            f"{part}.codes",
            NAME_OF[local.codes.dtype],
            tuple(parameter.shape),
            _offsets(parameter),
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
        data = bytes_of(codebook)
        pieces.append(
            whole(name, f"{part}.codebook", NAME_OF[codebook.dtype], codebook.shape, data)
        )
    return pieces


def _cut_as(parameter: torch.Tensor, name: str, part: str, value: torch.Tensor) -> list[Piece]:
    """One box of a tensor that is cut as the parameter is; none where the shard is empty."""
    local = local_of(value)
    if local.numel() == 0:
        return []
    shape, offsets = tuple(parameter.shape), _offsets(parameter)
    dtype = NAME_OF[local.dtype]
    return [Piece(name, part, dtype, shape, offsets, tuple(local.shape), bytes_of(local))]


def _offsets(parameter: torch.Tensor) -> tuple[int, ...]:
    if not isinstance(parameter, DTensor):
        return (0,) * parameter.dim()
    _, offsets = compute_local_shape_and_global_offset(
        parameter.shape, parameter.device_mesh, parameter.placements
    )
    return tuple(offsets)


def _first_element(parameter: torch.Tensor) -> int:
    """Of this rank's rows, in the flattened parameter."""
    return _offsets(parameter)[0] * math.prod(parameter.shape[1:])
