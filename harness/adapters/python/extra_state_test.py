"""Extra states as each release wrote them, with known values in every field, and what must become
of bytes that none did: cut off, changed, of another module, or made to run code.
"""

import contextlib
import io
import pickle
import re
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.adapters.python.extra_state import (
    COLUMNS_OF_A_GEMM,
    TENSORS,
    ExtraStateProblem,
    decode,
    described,
    require,
)
from harness.adapters.python.inert_pickle import Call, PickleProblem, read_pickle

DATA = Path(__file__).parent / "testdata"
MLP = ["1.13.0", "2.1.0", "2.3.0", "2.4.0", "2.10.0", "2.15.0", "2.16.1", "2.20.2"]
LINEAR = ["1.13.0", "2.3.0", "2.20.2"]
WORDS = {
    "mlp": "amax_compute_algo=max, amax_history_len=4, fp8_format=hybrid, margin=0, recipe=delayed",
    "linear": "amax_compute_algo=most_recent, amax_history_len=4, fp8_format=e4m3, margin=2, "
    "recipe=delayed",
}


def state_of(release: str, kind: str) -> bytes:
    return (DATA / f"extra_state_{release}-{kind}.bin").read_bytes()


def as_written(field: str, columns: int, rows: int) -> list[float]:
    """What was put into the modules before their states were taken."""
    direction = 0 if field.endswith("fwd") else 1
    if field.startswith("amax_history"):
        return [0.25 * i + 100 * direction for i in range(rows * columns)]
    scales = [0.5 * i + 1 + 10 * direction for i in range(columns)]
    if field.startswith("scale_inv"):
        return [struct.unpack("<f", struct.pack("<f", 1 / s))[0] for s in scales]
    return scales


@pytest.mark.parametrize(
    ("release", "kind", "gemms"),
    [(release, "mlp", 2) for release in MLP] + [(release, "linear", 1) for release in LINEAR],
)
def test_every_release_gives_the_fields_it_was_given(release, kind, gemms):
    state = decode("layers.0", state_of(release, kind))
    is_old = release.startswith("1.")
    assert state.form == ("torch_save" if is_old else "pickle")
    assert (state.gemms, state.history) == (gemms, 4)
    assert state.recipe_line() == ("" if is_old else WORDS[kind])
    assert set(state.tensors) == {n for n in TENSORS if is_old or "scale_inv" not in n}
    for name, field in state.tensors.items():
        columns = gemms * COLUMNS_OF_A_GEMM[name.endswith("fwd")]
        values = struct.unpack(f"<{len(field.data) // 4}f", field.data)
        assert list(values) == as_written(name, columns, 4), name
    assert state.variables["num_gemms"] == gemms
    require("layers.0", state, gemms, 4)


@pytest.mark.parametrize("state", [None, b"", pickle.dumps(None), state_of("2.3.0", "mlp-fresh")])
def test_a_module_that_has_not_run_yet_has_no_state(state):
    assert decode("layers.0", state).form == "none"


def test_a_fresh_1_13_module_has_no_state():
    assert decode("layers.0", state_of("1.13.0", "mlp-fresh")).form == "none"


@pytest.mark.parametrize("release", ["2.3.0", "2.15.0"])
def test_a_recipe_without_state_is_named(release):
    state = decode("layers.0", state_of(release, "current"))
    assert state.recipe == {"recipe": "Float8CurrentScaling"}
    assert not state.tensors


def test_another_module_or_history_is_named():
    state = decode("layers.0", state_of("2.20.2", "mlp"))
    with pytest.raises(ExtraStateProblem, match="layers.1: .*scale_fwd: .* 2 GEMMs, .* has 1"):
        require("layers.1", state, 1, 4)
    with pytest.raises(ExtraStateProblem, match="amax_history_fwd: 4 rows .* asks for 16"):
        require("layers.1", state, 2, 16)


def test_what_no_release_has_written_yet_is_described_all_the_same():
    assert described("layers.0", None) == "extra state of layers.0: 0 bytes, none"
    known = state_of("2.3.0", "mlp")
    assert described("layers.0", known) == "extra state of layers.0: 1878 bytes, pickle"
    later = pickle.dumps({"scale_of_a_later_release": 1})
    assert "bytes, not understood: layers.0: " in described("layers.0", later)


@pytest.mark.parametrize("release", ["1.13.0", "2.3.0", "2.20.2"])
def test_every_cut_is_an_error_that_names_the_module(release):
    whole = state_of(release, "mlp")
    for end in range(1, len(whole)):
        with pytest.raises(ExtraStateProblem, match="layers.0: extra state"):
            decode("layers.0", whole[:end])


def test_bytes_behind_the_end_are_an_error():
    with pytest.raises(ExtraStateProblem, match="goes on behind its end"):
        decode("layers.0", state_of("2.3.0", "mlp") + b"\0")


class Runs:
    """What runs code when it is unpickled, in the ways that pickle has."""

    def __init__(self, *reduced):
        self.reduced = reduced

    def __reduce__(self):
        return self.reduced


def hostile(file: Path) -> dict[str, bytes]:
    touch = (Path.touch, (file,))
    system = b"cposix\nsystem\n(V" + f"touch {file}".encode() + b"\ntR."
    return {
        "reduce": pickle.dumps({"recipe": Runs(*touch)}, protocol=4),
        "global": system,
        "instance": b"(V" + f"touch {file}".encode() + b"\niposix\nsystem\n.",
        "eval": pickle.dumps({"scale_fwd": Runs(eval, (f"open({str(file)!r}, 'w')",))}),
        "setitem": pickle.dumps(Runs(dict, (), None, None, iter([(Runs(*touch), 1)]))),
    }


@pytest.mark.parametrize("way", ["reduce", "global", "instance", "eval", "setitem"])
def test_code_is_never_run_and_named(way, tmp_path):
    file = tmp_path / "was_run"
    state = hostile(file)[way]
    with pytest.raises(ExtraStateProblem, match="layers.0: .*") as found:
        decode("layers.0", state)
    assert not file.exists()
    if way != "setitem":  # which is no pickle of fields in the first place
        assert "could run code; nothing of it was run" in str(found.value)


def test_what_is_held_against_the_decoder_would_run(tmp_path):
    """Else the test above could pass by harmless bytes."""
    for way, state in hostile(tmp_path / "was_run").items():
        (tmp_path / "was_run").unlink(missing_ok=True)
        if way != "setitem":  # its part that runs stands where pickle gives up first
            pickle.loads(state)
            assert (tmp_path / "was_run").exists(), way


def test_code_inside_of_a_tensors_own_pickle_is_never_run(tmp_path):
    """The storage of a tensor is a torch.save of its own, with pickles of its own."""
    file = tmp_path / "was_run"
    whole = state_of("2.20.2", "mlp")
    inner = pickle.dumps(Runs(Path.touch, (file,)), protocol=2)
    at = whole.index(b"\x80\x02\x8a\nl\xfc\x9cF")  # the first of the storage's pickles
    changed = whole[: at - 5] + b"B" + struct.pack("<I", len(inner)) + inner
    size = struct.unpack("<I", whole[at - 4 : at])[0]
    changed = _without_frames(changed + whole[at + size :])
    with pytest.raises(ExtraStateProblem, match="layers.0: extra state, field scale_fwd: no torch"):
        decode("layers.0", changed)
    assert not file.exists()


@pytest.mark.parametrize("count", [5, 7])
def test_a_storage_of_another_length_names_the_field(count):
    whole = state_of("2.3.0", "mlp")
    length, first = struct.pack("<q", 6), struct.pack("<f", 1.0)  # of scale_fwd
    assert whole.count(length + first) == 1
    with pytest.raises(ExtraStateProblem, match=f"field scale_fwd: a storage of {count} elements"):
        decode("layers.0", whole.replace(length + first, struct.pack("<q", count) + first))


def _without_frames(state: bytes) -> bytes:
    """A frame's length is of the bytes as they were."""
    return state[:2] + state[11:] if state[2:3] == b"\x95" else state


def test_an_unknown_field_is_named():
    state = pickle.dumps({"scale_forward": 1})
    with pytest.raises(ExtraStateProblem, match="field scale_forward: no release"):
        decode("layers.0", state)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        (b"scale_fwd", b"scale_fwt", "scale_fwt"),
        (b"DelayedScaling", b"DelayedScalinh", "recipe"),
        (b"amax_history_len", b"amax_history_lem", "recipe.amax_history_len"),
        (b"FloatStorage", b"HalfStorages", "HalfStorages"),
        (b"\x8c\x03max", b"\x8c\x03min", ""),
    ],
)
def test_what_no_release_writes_is_named(old, new, named):
    whole = state_of("2.3.0", "mlp")
    assert old in whole
    changed = whole.replace(old, new)
    if not named:  # an algorithm of the user's own is the user's
        assert "amax_compute_algo=min" in decode("layers.0", changed).recipe_line()
        return
    with pytest.raises(ExtraStateProblem, match=f"layers.0: extra state.*{re.escape(named)}"):
        decode("layers.0", changed)


TOO_MUCH = {
    "number": pickle.dumps(10**6000, protocol=2)[2:-1],  # more digits than Python prints
    "deep": b"(" * 100_000 + b"t" * 100_000,
    "long": b"(" + b"K\x01" * 100_000 + b"t",
    "wide": b"K\x01" + b"2\x86" * 60,  # pairs of pairs: 2^60 numbers in print
}


@pytest.mark.parametrize("what", TOO_MUCH)
@pytest.mark.parametrize(
    ("release", "old", "named"),
    [
        ("1.13.0", b"ctorch\nFloatStorage\n", "field scale_fwd"),  # the kind of a storage
        ("1.13.0", b"X\x01\x00\x00\x000", "field scale_fwd"),  # its key
        ("1.13.0", b"K\x06\x85", "field scale_fwd"),  # a shape
        ("2.3.0", b"K\x00", "field recipe.margin"),
        ("2.3.0", b"M\xc0\x01", "field recipe.fp8_format"),
        ("2.3.0", b"\x8c\x09scale_fwd", ""),  # a field's name
    ],
)
def test_what_is_endless_in_print_is_an_error_in_no_time(what, release, old, named):
    state = _with(state_of(release, "mlp"), old, TOO_MUCH[what])
    with pytest.raises(ExtraStateProblem, match=f"layers.0: extra state.*{named}") as found:
        decode("layers.0", state)
    assert str(found.value).isprintable()


def _with(state: bytes, old: bytes, new: bytes) -> bytes:
    """The first `old` of its pickle replaced."""
    if state[:2] != b"PK":
        assert old in state
        return _without_frames(state.replace(old, new, 1))
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(state)) as source, zipfile.ZipFile(target, "w") as changed:
        for item in source.infolist():
            data = source.read(item)
            if item.filename.endswith("data.pkl"):
                assert old in data
                data = data.replace(old, new, 1)
            changed.writestr(item.filename, data)
    return target.getvalue()


def test_an_archive_with_a_missing_storage_names_the_field():
    source, target = io.BytesIO(state_of("1.13.0", "mlp")), io.BytesIO()
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for item in old.infolist():
            if not item.filename.endswith("data/2"):
                new.writestr(item, old.read(item))
    with pytest.raises(ExtraStateProblem, match="field amax_history_fwd: its storage 2 is missing"):
        decode("layers.0", target.getvalue())


@settings(max_examples=400, deadline=None)
@given(
    release=st.sampled_from(["1.13.0", "2.3.0", "2.20.2"]),
    changes=st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_changed_bytes_are_fields_or_an_error(release, changes):
    state = bytearray(state_of(release, "mlp"))
    for at, value in changes:
        state[at % len(state)] = value
    try:
        found = decode("layers.0", bytes(state))
    except ExtraStateProblem as problem:
        assert str(problem).startswith("layers.0: extra state")
        assert str(problem).isprintable()
    else:
        assert found.form in ("none", "pickle", "torch_save")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_an_object_or_an_error(state):
    with contextlib.suppress(PickleProblem):
        read_pickle(io.BytesIO(state))


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text()
        | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
        max_leaves=20,
    ),
    st.integers(0, 5),
)
def test_plain_objects_are_read_as_pickle_reads_them(value, protocol):
    state = pickle.dumps(value, protocol=protocol)
    found = read_pickle(io.BytesIO(state))
    if protocol >= 3:  # bytes of earlier protocols are a call
        assert found == value
    else:
        assert isinstance(found, (type(value), Call))
