"""torch's DTensor is the oracle of which box a rank holds, in every torch that the adapters run on.

Random meshes, shapes and splits go to placement_boxes, which is our code, and to dtensor_boxes.py
in each environment. Empty boxes have no place: torch says where they lie, and nobody may rely on
it. Where dp splits what tp left and stands ahead of tp in the mesh, torch 2.15 chunks what a dp
coordinate holds once more over tp, which is another box where the shards are uneven, and not what
FSDP put there; the last test pins that.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("RESUMECHECK_BUILD", ROOT / "build")) / "placement_boxes"
THEIRS = ROOT / "harness/scenario/oracle/dtensor_boxes.py"
ENVIRONMENTS = ["torch-2.8", "torch-2.15"]
CHUNKS_STRIDES_AGAIN = {"torch-2.15"}
CASES = 800

Boxes = list[list[list[int]]]


def python_of(environment: str) -> Path:
    command = [ROOT / "tools/environments", "path", environment]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    python = Path(answer.stdout.strip()) / "bin/python"
    if answer.returncode != 0 or not python.exists():
        pytest.skip(f"no environment {environment}: tools/environments make {environment}")
    return python


def ask(command: list[Path], lines: list[str]) -> list[Boxes]:
    answer = subprocess.run(
        command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    return [json.loads(line) for line in answer.stdout.splitlines()]


def any_mesh(source: random.Random) -> str:
    dims = source.sample(["rep", "dp", "tp", "cp"], source.randint(1, 4))
    mesh, left = "", 8
    for dim in dims:
        size = source.randint(1, left)
        mesh, left = f"{mesh}{dim}{size}", left // size
    return mesh


def is_uneven_and_strided(line: str) -> bool:
    """Two dims split one tensor dim, the later split standing ahead of the earlier in the mesh."""
    mesh, shape, splits = line.split()
    (first, first_dim), (then, then_dim) = re.findall(r"([a-z]+):(\d+)", splits)
    sizes = {name: int(size) for name, size in re.findall(r"([a-z]+)(\d+)", mesh)}
    if first_dim != then_dim or not {first, then} <= sizes.keys():
        return False
    strided = mesh.index(then) < mesh.index(first)
    return strided and int(shape.split(",")[int(first_dim)]) % (sizes[first] * sizes[then]) != 0


def any_line(source: random.Random) -> str:
    shape = [source.randint(1, 13) for _ in range(source.randint(1, 3))]
    splits = [(dim, source.randrange(len(shape))) for dim in ("tp", "dp")]
    if source.random() < 0.5:
        splits.reverse()
    return " ".join(
        [
            any_mesh(source),
            ",".join(str(size) for size in shape),
            ",".join(f"{name}:{dim}" for name, dim in splits),
        ]
    )


def held(boxes: Boxes) -> Boxes:
    return [box if all(box[1]) else [[], []] for box in boxes]


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_boxes_are_those_of_a_dtensor(environment: str) -> None:
    python = python_of(environment)
    source = random.Random(20)
    lines = [any_line(source) for _ in range(CASES)]
    assert sum(map(is_uneven_and_strided, lines)) > 40
    if environment in CHUNKS_STRIDES_AGAIN:
        lines = [line for line in lines if not is_uneven_and_strided(line)]
    lines += [f"dp{dp}tp2 {2 * dp * rows} tp:0,dp:0" for dp in (2, 3, 4) for rows in (1, 2, 5)]
    ours = ask([PROGRAM], lines)
    theirs = ask([python, THEIRS], lines)
    assert len(ours) == len(theirs) == len(lines)
    for line, one, other in zip(lines, ours, theirs, strict=True):
        assert held(one) == held(other), line


def test_torch_chunks_uneven_strides_again() -> None:
    line = "dp3tp2 7 tp:0,dp:0"
    (before,) = ask([python_of("torch-2.8"), THEIRS], [line])
    (now,) = ask([python_of("torch-2.15"), THEIRS], [line])
    (ours,) = ask([PROGRAM], [line])
    assert held(ours) == held(before)
    assert ours[5] == [[6], [1]]  # row 6 is the last of the second half of the rows
    assert now[4] == [[6], [1]]  # torch 2.15 has it in the first half
