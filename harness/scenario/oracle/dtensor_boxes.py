"""Reads the lines that placement_boxes reads and answers what torch says of a DTensor there.

Splits become placements: a mesh dim that splits a tensor dim before one that stands ahead of it in
the mesh makes that one a _StridedShard, as FSDP of a tensor-parallel parameter does. A rank's
coordinates are handed over, so no process group is needed; the function that takes them is private
and has had one name from 2.8 on.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import sys

from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset
from torch.distributed.tensor.placement_types import Placement, _StridedShard


def placements_of(dims: list[tuple[str, int]], splits: list[tuple[str, int]]) -> list[Placement]:
    position = {name: at for at, (name, _) in enumerate(dims)}
    size = dict(dims)
    placements: list[Placement] = [Replicate() for _ in dims]
    for at, (name, dim) in enumerate(splits):
        if name not in position:
            continue
        after = [
            size[other]
            for other, of in splits[:at]
            if of == dim and position.get(other, -1) > position[name]
        ]
        factor = math.prod(after)
        strided = factor > 1
        placements[position[name]] = (
            _StridedShard(dim, split_factor=factor) if strided else Shard(dim)
        )
    return placements


def boxes_of(mesh: str, shape: str, splits: str) -> list[list[list[int]]]:
    dims = [(name, int(size)) for name, size in re.findall(r"([a-z]+)(\d+)", mesh)]
    given = [(name, int(dim)) for name, dim in re.findall(r"([a-z]+):(\d+)", splits)]
    sizes = [int(size) for size in shape.split(",")]
    boxes = []
    for coordinates in itertools.product(*(range(size) for _, size in dims)):
        local, offsets = _compute_local_shape_and_global_offset(
            tuple(sizes),
            tuple(size for _, size in dims),
            list(coordinates),
            placements_of(dims, given),
        )
        boxes.append([list(offsets), list(local)])
    return boxes


for line in sys.stdin:
    print(json.dumps(boxes_of(*line.split())))
