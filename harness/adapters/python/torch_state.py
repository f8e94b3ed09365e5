"""Tensors of a torch framework as pieces of a rank's state: bytes as found, boxes from DTensor's
own layout. A plain tensor beside DTensors is whole on every rank, and whoever computes its box from
the mesh gives each rank a part of it that it does not hold.
"""

from __future__ import annotations

import ctypes

import torch
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from harness.adapters.python.state_file import Piece, whole

NAME_OF = {
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.uint8: "U8",
    torch.int64: "I64",
}


def local_of(value: torch.Tensor) -> torch.Tensor:
    return value.to_local() if isinstance(value, DTensor) else value


def bytes_of(tensor: torch.Tensor) -> bytes:
    tensor = tensor.detach().contiguous().cpu()
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def offsets_of(parameter: torch.Tensor) -> tuple[int, ...]:
    """Of this rank's shard, or of the whole where the parameter is no DTensor."""
    if not isinstance(parameter, DTensor):
        return (0,) * parameter.dim()
    _, offsets = compute_local_shape_and_global_offset(
        parameter.shape, parameter.device_mesh, parameter.placements
    )
    return tuple(offsets)


def cut_as(parameter: torch.Tensor, name: str, part: str, value: torch.Tensor) -> list[Piece]:
    """One box of a tensor that is cut as the parameter is; none where the shard is empty."""
    local = local_of(value)
    if local.numel() == 0:
        return []
    shape, offsets = tuple(parameter.shape), offsets_of(parameter)
    dtype = NAME_OF[local.dtype]
    return [Piece(name, part, dtype, shape, offsets, tuple(local.shape), bytes_of(local))]


def whole_here(name: str, part: str, value: torch.Tensor) -> Piece:
    """A tensor that every rank holds whole, such as a step."""
    local = local_of(value)
    return whole(name, part, NAME_OF[local.dtype], local.shape, bytes_of(local))
