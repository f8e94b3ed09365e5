"""The PyPI package safetensors is the oracle of our reader and writer.

A file goes through build/safetensors_echo, which reads and writes it with our code; the official
package must find the same tensors in the result. Damaged headers must be refused by both, and where
we are stricter, the list below says so.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import subprocess
from pathlib import Path

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, TensorSpec, deserialize, serialize

ROOT = Path(__file__).resolve().parents[2]
ECHO = Path(os.environ.get("RESUMECHECK_BUILD", ROOT / "build")) / "safetensors_echo"

# Name of the package's writer, and bytes an element.
DTYPES = {
    "bool": 1, "uint8": 1, "int8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "uint16": 2,
    "int16": 2, "float16": 2, "bfloat16": 2, "uint32": 4, "int32": 4, "float32": 4, "uint64": 8,
    "int64": 8, "float64": 8,
}  # fmt: skip


def echo(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    if not ECHO.exists():
        pytest.fail(f"{ECHO} is missing: build the project, or set RESUMECHECK_BUILD")
    return subprocess.run([ECHO, source, target], capture_output=True, text=True, check=False)


def file_of(header: object, data: bytes, raw: str | None = None) -> bytes:
    text = (json.dumps(header) if raw is None else raw).encode()
    return struct.pack("<Q", len(text)) + text + data


def official_accepts(content: bytes) -> bool:
    try:
        deserialize(content)
    except SafetensorError:
        return False
    return True


def official_file(tensors: dict[str, dict[str, object]], metadata: dict[str, str]) -> bytes:
    buffers = {name: ctypes.create_string_buffer(t["data"]) for name, t in tensors.items()}
    specs = {
        name: TensorSpec(
            dtype=t["dtype"],
            shape=t["shape"],
            data_ptr=ctypes.addressof(buffers[name]),
            data_len=len(t["data"]),
        )
        for name, t in tensors.items()
    }
    # Of an empty dict 0.8.0 writes a header that it cannot read itself.
    return bytes(serialize(specs, metadata or None))


@st.composite
def tensors(draw: st.DrawFn) -> dict[str, dict[str, object]]:
    names = draw(st.lists(st.text(min_size=1, max_size=12), unique=True, max_size=6))
    result = {}
    for name in names:
        dtype = draw(st.sampled_from(sorted(DTYPES)))
        shape = draw(st.lists(st.integers(0, 5), max_size=4))
        count = int(numpy.prod(shape, dtype=numpy.int64)) * DTYPES[dtype]
        data = draw(st.binary(min_size=count, max_size=count))
        result[name] = {"dtype": dtype, "shape": shape, "data": data}
    result.pop("__metadata__", None)
    return result


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tensors=tensors(), metadata=st.dictionaries(st.text(max_size=8), st.text(max_size=8)))
def test_what_the_package_writes_comes_back_the_same(
    tmp_path: Path, tensors: dict[str, dict[str, object]], metadata: dict[str, str]
) -> None:
    source, target = tmp_path / "from", tmp_path / "onto"
    source.write_bytes(official_file(tensors, metadata))
    answer = echo(source, target)
    assert answer.returncode == 0, f"our reader refuses an official file: {answer.stderr}"
    content = target.read_bytes()
    assert dict(deserialize(content)) == dict(deserialize(source.read_bytes()))
    length = struct.unpack("<Q", content[:8])[0]
    assert length % 8 == 0, "the data must begin 8-byte aligned"
    assert json.loads(content[8 : 8 + length]).get("__metadata__", {}) == metadata


A = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}
REFUSED_BY_BOTH = {
    "nothing at all": b"",
    "seven bytes": b"1234567",
    "a header length beyond the file": struct.pack("<Q", 100) + b"{}",
    "an absurd header length": b"\xff" * 8 + b"{}",
    "no JSON": file_of(None, b"", "{,}"),
    "a list": file_of([], b""),
    "no UTF-8": struct.pack("<Q", 6) + b'{"\xff":1}'[:6],
    "overlap": file_of({"a": A, "b": {**A, "data_offsets": [1, 3]}}, b"xxx"),
    "the same bytes twice": file_of({"a": A, "b": A}, b"xx"),
    "a gap": file_of({"a": A, "b": {**A, "data_offsets": [3, 5]}}, b"xxxxx"),
    "a gap at the front": file_of({"a": {**A, "data_offsets": [1, 3]}}, b"xxx"),
    "trailing bytes": file_of({"a": A}, b"xxx"),
    "bytes that lack": file_of({"a": A}, b"x"),
    "offsets that go backwards": file_of({"a": {**A, "data_offsets": [2, 0]}}, b"xx"),
    "a negative offset": file_of({"a": {**A, "data_offsets": [-1, 1]}}, b"xx"),
    "a length that is not dtype x shape": file_of({"a": {**A, "dtype": "F32"}}, b"xx"),
    "an unknown dtype": file_of({"a": {**A, "dtype": "Q8"}}, b"xx"),
    "a negative size": file_of({"a": {**A, "shape": [-2]}}, b"xx"),
    "a size that is no integer": file_of({"a": {**A, "shape": [2.0]}}, b"xx"),
    "a shape that overflows": file_of({"a": {**A, "shape": [2**63 - 1, 4]}}, b"xx"),
    "metadata that is no string": file_of({"__metadata__": {"k": 1}}, b""),
    "a field that lacks": file_of({"a": {"dtype": "U8", "shape": [2]}}, b"xx"),
}
REFUSED_BY_US_ONLY = {
    "metadata given twice": file_of(None, b"", '{"__metadata__": {"k": "1", "k": "2"}}'),
    "a tensor given twice": file_of(None, b"xx", f'{{"a": {json.dumps(A)}, "a": {json.dumps(A)}}}'),
    "an unknown field": file_of({"a": {**A, "more": 1}}, b"xx"),
}


@pytest.mark.parametrize("what", REFUSED_BY_BOTH)
def test_damage_is_refused_by_both(tmp_path: Path, what: str) -> None:
    content = REFUSED_BY_BOTH[what]
    (tmp_path / "bad").write_bytes(content)
    answer = echo(tmp_path / "bad", tmp_path / "onto")
    assert not official_accepts(content), "the package accepts this: move it to the other list"
    assert answer.returncode == 3, f"our reader accepts {what}"
    assert str(tmp_path / "bad") in answer.stderr, "the error must name the file"
    assert not (tmp_path / "onto").exists()


@pytest.mark.parametrize("what", REFUSED_BY_US_ONLY)
def test_we_are_stricter(tmp_path: Path, what: str) -> None:
    content = REFUSED_BY_US_ONLY[what]
    (tmp_path / "bad").write_bytes(content)
    assert echo(tmp_path / "bad", tmp_path / "onto").returncode == 3, f"our reader accepts {what}"
    assert official_accepts(content), "the package refuses this too: move it to the other list"
