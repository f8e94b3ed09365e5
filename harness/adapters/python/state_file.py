"""Writes one rank's state as state_rank<k>.safetensors, as harness/state/state_file.h says.

Every tensor says which global tensor it belongs to and which box of it it is; a file without
that can only be compared on the mesh that wrote it, which hides every mistake of a mesh change.
The bytes are written as they lie in memory, little endian, never converted.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterable
from pathlib import Path

SCHEMA = 1
BYTES_OF = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "U16": 2,
    "I16": 2,
    "F16": 2,
    "BF16": 2,
    "U32": 4,
    "I32": 4,
    "F32": 4,
    "U64": 8,
    "I64": 8,
    "F64": 8,
}
HEADER_ALIGNMENT = 8


@dataclasses.dataclass(frozen=True)
class Piece:
    """One box of one tensor.

    name: the parameter's FQN. part: "param", "moment1.codes", ..., "step". dtype: as safetensors
    spells it. global_shape, offsets, shape: elements, one number a dimension. block: elements a
    quantisation block, 0 where the tensor is not quantised state. data: the box, row-major.
    """

    name: str
    part: str
    dtype: str
    global_shape: tuple[int, ...]
    offsets: tuple[int, ...]
    shape: tuple[int, ...]
    data: bytes
    block: int = 0

    def __post_init__(self) -> None:
        if self.dtype not in BYTES_OF:
            raise ValueError(f"{self.part} of {self.name}: unknown dtype {self.dtype!r}")
        if not len(self.global_shape) == len(self.offsets) == len(self.shape):
            raise ValueError(f"{self.part} of {self.name}: box and shape differ in dimensions")
        for size, offset, length in zip(self.global_shape, self.offsets, self.shape, strict=True):
            if offset < 0 or length < 0 or offset + length > size:
                raise ValueError(f"{self.part} of {self.name}: the box leaves {self.global_shape}")
        expected = math.prod(self.shape) * BYTES_OF[self.dtype]
        if len(self.data) != expected:
            raise ValueError(
                f"{self.part} of {self.name}: {len(self.data)} bytes for a box of {expected}"
            )


@dataclasses.dataclass
class RankState:
    """Everything on one rank that decides the next step; values: what is no tensor, "lr/0"."""

    rank: int
    world: int
    mesh: str
    coordinates: dict[str, int]
    step: int
    pieces: list[Piece] = dataclasses.field(default_factory=list)
    values: dict[str, bool | int | float | str] = dataclasses.field(default_factory=dict)


def whole(name: str, part: str, dtype: str, shape: Iterable[int], data: bytes) -> Piece:
    """A tensor that this rank holds whole."""
    shape = tuple(shape)
    return Piece(name, part, dtype, shape, (0,) * len(shape), shape, data)


def state_file_name(rank: int) -> str:
    return f"state_rank{rank}.safetensors"


def write_rank_state(folder: Path, state: RankState) -> Path:
    """Writes folder/state_rank<k>.safetensors whole or not at all; makes the folder."""
    keyed = _keyed(state.pieces)
    header: dict[str, object] = {"__metadata__": {"resumecheck": json.dumps(_record(state, keyed))}}
    end = 0
    for key, piece in keyed:
        begin, end = end, end + len(piece.data)
        header[key] = {
            "dtype": piece.dtype,
            "shape": list(piece.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % HEADER_ALIGNMENT)
    chunks = [len(text).to_bytes(8, "little"), text, *(piece.data for _, piece in keyed)]
    file = folder / state_file_name(state.rank)
    write_whole(file, chunks)
    return file


def write_whole(file: Path, chunks: Iterable[bytes]) -> None:
    """The file appears complete or not at all. No fsync: what is written here is read by a process
    of the same machine within seconds and never outlives a crash of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with open(temporary, "wb") as out:
            out.writelines(chunks)
        os.replace(temporary, file)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _keyed(pieces: list[Piece]) -> list[tuple[str, Piece]]:
    """Wide elements first, so that every tensor starts aligned; several boxes of one tensor are
    numbered."""
    names = [f"{piece.name}/{piece.part}" for piece in pieces]
    seen: dict[str, int] = {}
    keyed = []
    for name, piece in zip(names, pieces, strict=True):
        number = seen.get(name, 0)
        seen[name] = number + 1
        keyed.append((f"{name}/{number}" if names.count(name) > 1 else name, piece))
    return sorted(keyed, key=lambda item: (-BYTES_OF[item[1].dtype], item[0]))


def _record(state: RankState, keyed: list[tuple[str, Piece]]) -> dict[str, object]:
    tensors = {
        key: {
            "name": piece.name,
            "part": piece.part,
            "dtype": piece.dtype,
            "global_shape": list(piece.global_shape),
            "offsets": list(piece.offsets),
            "shape": list(piece.shape),
            "block": piece.block,
        }
        for key, piece in keyed
    }
    return {
        "schema": SCHEMA,
        "rank": state.rank,
        "world": state.world,
        "mesh": state.mesh,
        "coordinates": state.coordinates,
        "step": state.step,
        "tensors": tensors,
        "values": {name: _value(value) for name, value in state.values.items()},
    }


def _value(value: bool | int | float | str) -> object:
    """JSON has no word for a number that is not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"nonfinite": str(value)}  # nan, inf, -inf
    return value
