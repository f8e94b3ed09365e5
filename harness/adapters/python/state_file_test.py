"""The state file: what the safetensors package reads back, and what can never be written."""

import json
import struct

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, safe_open

from harness.adapters.python.state_file import (
    BYTES_OF,
    Piece,
    RankState,
    whole,
    write_rank_state,
    write_whole,
)

NUMPY_OF = {"U8": "u1", "I32": "<i4", "F16": "<f2", "F32": "<f4", "F64": "<f8", "I64": "<i8"}


def state_of(pieces, **values):
    return RankState(1, 2, "dp2", {"dp": 1}, 3, pieces, values)


def record_of(file):
    with safe_open(file, framework="numpy") as opened:
        return json.loads(opened.metadata()["resumecheck"])


@st.composite
def pieces(draw):
    dtype = draw(st.sampled_from(sorted(NUMPY_OF)))
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    offsets = [draw(st.integers(0, 3)) for _ in shape]
    size = int(numpy.prod(shape, dtype=int)) * BYTES_OF[dtype]
    name = draw(st.sampled_from(["ffn.up", "norm", 'a "quoted" \u00fc name']))
    part = draw(st.sampled_from(["param", "moment1.codes", "step"]))
    wide = tuple(length + offset + 1 for length, offset in zip(shape, offsets, strict=True))
    data = draw(st.binary(min_size=size, max_size=size))
    return Piece(name, part, dtype, wide, tuple(offsets), tuple(shape), data)


@given(st.lists(pieces(), max_size=6))
def test_the_safetensors_package_reads_every_piece_back(tmp_path_factory, given_pieces):
    folder = tmp_path_factory.mktemp("state")
    file = write_rank_state(folder, state_of(given_pieces))
    tensors = record_of(file)["tensors"]
    loaded = load_file(file)
    assert set(tensors) == set(loaded)
    read = [
        (
            tensor["name"],
            tensor["part"],
            tensor["dtype"],
            tuple(tensor["global_shape"]),
            tuple(tensor["offsets"]),
            tuple(loaded[key].shape),
            loaded[key].astype(NUMPY_OF[tensor["dtype"]]).tobytes(),
        )
        for key, tensor in tensors.items()
    ]
    written = [
        (p.name, p.part, p.dtype, p.global_shape, p.offsets, p.shape, p.data) for p in given_pieces
    ]
    assert sorted(read) == sorted(written)


def test_every_tensor_starts_aligned_to_its_element(tmp_path):
    file = write_rank_state(
        tmp_path,
        state_of([whole("a", "codes", "U8", (3,), b"abc"), whole("b", "step", "F32", (), b"0000")]),
    )
    content = file.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    assert (8 + length) % 8 == 0
    for key in ("a/codes", "b/step"):
        assert header[key]["data_offsets"][0] % BYTES_OF[header[key]["dtype"]] == 0


def test_the_record_says_who_wrote_it(tmp_path):
    state = state_of([], **{"lr/0": 0.001, "bad": float("nan")})
    record = record_of(write_rank_state(tmp_path / "new" / "folder", state))
    assert record == {
        "schema": 1,
        "rank": 1,
        "world": 2,
        "mesh": "dp2",
        "coordinates": {"dp": 1},
        "step": 3,
        "tensors": {},
        "values": {"lr/0": 0.001, "bad": {"nonfinite": "nan"}},
    }


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("F31", (2,), (0,), (2,), b"12345678"), "unknown dtype"),
        (("F32", (2,), (1,), (2,), b"12345678"), "leaves"),
        (("F32", (2,), (-1,), (2,), b"12345678"), "leaves"),
        (("F32", (2, 2), (0,), (2,), b"12345678"), "dimensions"),
        (("F32", (2,), (0,), (2,), b"1234"), "4 bytes for a box of 8"),
    ],
)
def test_a_piece_that_is_no_box_of_its_tensor_cannot_be_made(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        Piece("ffn.up", "param", *arguments)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "file"
    write_whole(target, [b"old"])

    def chunks():
        yield b"half"
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_whole(target, chunks())
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    assert target.read_bytes() == b"old"
