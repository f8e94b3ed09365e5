"""Decodes what Transformer Engine's modules give as `_extra_state`, of any release from 1.13 to
2.20, into fields: nothing, a torch.save archive, or a pickle of tensors that are each a torch.save
of their own. The bytes differ at every call, as addresses stand in them, so they must never be
compared; only the fields can be.

Nothing is executed (inert_pickle.py), and what is not exactly as some release writes it is an
error that names the module and the field: a state that is half read resumes with wrong scales.
"""

from __future__ import annotations

import dataclasses
import io
import math
import struct
import zipfile
import zlib
from collections.abc import Mapping

from harness.adapters.python.inert_pickle import (
    Call,
    Global,
    Persistent,
    PickleProblem,
    globals_of,
    read_pickle,
)

# Field -> whether it is of the forward direction, and whether it has rows of history.
TENSORS = {
    "scale_fwd": (True, False),
    "scale_inv_fwd": (True, False),
    "amax_history_fwd": (True, True),
    "scale_bwd": (False, False),
    "scale_inv_bwd": (False, False),
    "amax_history_bwd": (False, True),
}
COLUMNS_OF_A_GEMM = {True: 3, False: 2}  # input, weight, output; gradients of output and input
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL = 1001
FLOAT_BYTES = 4
ARCHIVE_LIMIT = 1 << 26  # bytes, unpacked; a real one has a few thousand
MOST_DIMENSIONS = 2  # of a tensor
LARGEST_SETTING = 1 << 30  # of a recipe, beyond every margin and every length of a history
# What zipfile raises of damaged archives, beside its own.
ARCHIVE_PROBLEMS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
)
RECIPES = "transformer_engine.common.recipe"
DELAYED = "DelayedScaling"
STATELESS = ("Float8CurrentScaling", "MXFP8BlockScaling", "Float8BlockScaling", "NVFP4BlockScaling")
FORMATS = {(448.0, 448.0): "e4m3", (57344.0, 57344.0): "e5m2", (448.0, 57344.0): "hybrid"}
KNOWN_GLOBALS = {
    ("torch._utils", "_rebuild_tensor_v2"),
    ("torch.storage", "_load_from_bytes"),
    ("torch", "FloatStorage"),
    ("torch", "device"),
    ("collections", "OrderedDict"),
}


class ExtraStateProblem(ValueError):
    """One line that names the module and the field."""


@dataclasses.dataclass(frozen=True)
class Field:
    """A float32 tensor; data: row-major, little endian."""

    shape: tuple[int, ...]
    data: bytes


@dataclasses.dataclass(frozen=True)
class ExtraState:
    """form: "none" (nothing was kept), "torch_save" (1.x), "pickle" (2.x). recipe: its class's name
    and settings, None before 2.0. variables: the module's other settings."""

    form: str
    recipe: dict[str, object] | None = None
    tensors: dict[str, Field] = dataclasses.field(default_factory=dict)
    variables: dict[str, object] = dataclasses.field(default_factory=dict)

    @property
    def gemms(self) -> int:
        return self.tensors["scale_fwd"].shape[0] // COLUMNS_OF_A_GEMM[True] if self.tensors else 0

    @property
    def history(self) -> int:
        """Rows of the amax history."""
        return self.tensors["amax_history_fwd"].shape[0] if self.tensors else 0

    def recipe_line(self) -> str:
        return recipe_line(self.recipe) if self.recipe else ""


def recipe_line(settings: Mapping[str, object]) -> str:
    """The settings that decide the next update, sorted, in one line."""
    return ", ".join(f"{name}={settings[name]}" for name in sorted(settings))


def decode(module: str, state: bytes | None) -> ExtraState:
    """module: its FQN, for errors. state: the bytes of the uint8 tensor or of the BytesIO."""
    if state is None or len(state) == 0:
        return ExtraState("none")
    is_archive = state[:2] == b"PK"
    try:
        content, storages = _archive(state) if is_archive else _single(state)
    except PickleProblem as problem:
        raise _problem(module, "", f"cut off or damaged: {problem}") from problem
    if content is None:
        return ExtraState("none")
    _refuse_code(module, content)
    return _fields(module, content, storages, "torch_save" if is_archive else "pickle")


def described(module: str, state: bytes | None) -> str:
    """For people: how long it is and how it was written. Of a release that writes it in another way
    only this line suffers: whether its modules resume is not decided by what is read here."""
    size = f"extra state of {module}: {0 if state is None else len(state)} bytes"
    try:
        return f"{size}, {decode(module, state).form}"
    except ExtraStateProblem as problem:
        return f"{size}, not understood: {problem}"


def require(module: str, state: ExtraState, gemms: int, history: int) -> None:
    """That it is of such a module, before it goes into one."""
    if not state.tensors:
        return
    if state.gemms != gemms:
        raise _problem(
            module, "scale_fwd", f"of a module with {state.gemms} GEMMs, and this has {gemms}"
        )
    if state.history != history:
        raise _problem(
            module,
            "amax_history_fwd",
            f"{state.history} rows of history, and the recipe asks for {history}",
        )


def _single(state: bytes) -> tuple[object, dict[str, bytes]]:
    stream = io.BytesIO(state)
    content = read_pickle(stream)
    if stream.read(1):
        raise PickleProblem(f"goes on behind its end (byte {stream.tell() - 1})")
    return content, {}


def _archive(state: bytes) -> tuple[object, dict[str, bytes]]:
    """The object of torch.save's zip archive, and its storages by key."""
    try:
        with zipfile.ZipFile(io.BytesIO(state)) as archive:
            if sum(item.file_size for item in archive.infolist()) > ARCHIVE_LIMIT:
                raise PickleProblem(f"unpacks to more than {ARCHIVE_LIMIT} bytes")
            members = {item.filename: archive.read(item) for item in archive.infolist()}
    except PickleProblem:
        raise
    except ARCHIVE_PROBLEMS as problem:
        raise PickleProblem(str(problem)) from problem
    roots = [name.removesuffix("data.pkl") for name in members if name.endswith("/data.pkl")]
    if len(roots) != 1:
        raise PickleProblem("an archive without one data.pkl")
    root = roots[0]
    order = members.get(f"{root}byteorder", b"little")
    if order != b"little":
        raise PickleProblem(f"byte order {_shown(order)}")
    content, _ = _single(members[f"{root}data.pkl"])
    prefix = f"{root}data/"
    storages = {
        name.removeprefix(prefix): data for name, data in members.items() if name.startswith(prefix)
    }
    return content, storages


def _refuse_code(module: str, content: object) -> None:
    for found in globals_of(content):
        is_recipe = found.module == RECIPES and "." not in found.name
        is_member = (found.module, found.name) == ("builtins", "getattr")
        if not (is_recipe or is_member or (found.module, found.name) in KNOWN_GLOBALS):
            raise _problem(
                module,
                "",
                f"its pickle names {_shown(str(found))}, which is no part of an extra state and "
                "could run code; nothing of it was run",
            )


def _fields(module: str, content: object, storages: dict[str, bytes], form: str) -> ExtraState:
    if not isinstance(content, dict):
        raise _problem(module, "", f"a {type(content).__name__} and not a dict of fields")
    names = [*TENSORS, "recipe", "extra_fp8_variables"]
    for name in content:
        if name not in names:
            raise _problem(module, _shown(name), "no release from 1.13 to 2.20 writes this field")
    recipe = _recipe(module, content["recipe"]) if "recipe" in content else None
    tensors = {
        name: _tensor(module, name, content[name], storages) for name in TENSORS if name in content
    }
    _check_shapes(module, tensors, recipe, content)
    variables = content.get("extra_fp8_variables", {})
    if not isinstance(variables, dict):
        raise _problem(module, "extra_fp8_variables", "not a dict")
    return ExtraState(form, recipe, tensors, variables)


def _check_shapes(
    module: str, tensors: dict[str, Field], recipe: dict | None, content: dict
) -> None:
    if recipe and recipe["recipe"] != "delayed":
        if tensors:
            raise _problem(module, next(iter(tensors)), f"a {recipe['recipe']} recipe keeps none")
        return
    is_old = "recipe" not in content
    for name in TENSORS:
        wanted = not name.startswith("scale_inv") or is_old
        if wanted and name not in tensors:
            raise _problem(module, name, "is missing")
    gemms, left = divmod(math.prod(tensors["scale_fwd"].shape), COLUMNS_OF_A_GEMM[True])
    if left or gemms == 0 or len(tensors["scale_fwd"].shape) != 1:
        raise _problem(module, "scale_fwd", "its columns are those of no number of GEMMs")
    length = tensors["amax_history_fwd"].shape[:1]
    for name, field in tensors.items():
        is_forward, is_history = TENSORS[name]
        columns = gemms * COLUMNS_OF_A_GEMM[is_forward]
        shape = (*length, columns) if is_history else (columns,)
        if field.shape != shape:
            raise _problem(module, name, f"shape {list(field.shape)}, expected {list(shape)}")
    if recipe and recipe["amax_history_len"] != length[0]:
        raise _problem(
            module,
            "amax_history_fwd",
            f"{length[0]} rows of history, and its recipe says {recipe['amax_history_len']}",
        )


def _tensor(module: str, name: str, node: object, storages: dict[str, bytes]) -> Field:
    if not (
        isinstance(node, Call)
        and node.function == Global("torch._utils", "_rebuild_tensor_v2")
        and len(node.arguments) >= 4
    ):
        raise _problem(module, name, "not a tensor")
    storage, offset, shape, strides = node.arguments[:4]
    if not (_are_sizes(shape) and _are_sizes(strides) and _are_sizes((offset,))):
        raise _problem(module, name, "a tensor without a shape")
    if strides != _contiguous(shape) and math.prod(shape):
        raise _problem(module, name, f"strides {list(strides)}: not row-major")
    try:
        data = _storage(storage, storages)
    except PickleProblem as problem:
        raise _problem(module, name, str(problem)) from problem
    begin, size = FLOAT_BYTES * offset, FLOAT_BYTES * math.prod(shape)
    if begin + size > len(data):
        raise _problem(module, name, f"{len(data)} bytes, and its shape needs {begin + size}")
    return Field(tuple(shape), data[begin : begin + size])


def _storage(node: object, storages: dict[str, bytes]) -> bytes:
    if isinstance(node, Persistent):
        return storages[_storage_key(node, storages)]
    if (
        isinstance(node, Call)
        and node.function == Global("torch.storage", "_load_from_bytes")
        and len(node.arguments) == 1
        and isinstance(node.arguments[0], bytes)
    ):
        return _legacy_storage(node.arguments[0])
    raise PickleProblem("a tensor without a storage")


def _legacy_storage(data: bytes) -> bytes:
    """Of torch.save as it was before archives: four pickles, the keys, then size and bytes."""
    stream = io.BytesIO(data)
    if read_pickle(stream) != LEGACY_MAGIC or read_pickle(stream) != LEGACY_PROTOCOL:
        raise PickleProblem("no torch.save")
    system = read_pickle(stream)
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise PickleProblem("not little endian")
    storage, keys = read_pickle(stream), read_pickle(stream)
    is_one = isinstance(keys, list) and len(keys) == 1 and isinstance(keys[0], str)
    if not isinstance(storage, Persistent) or not is_one:
        raise PickleProblem("not one storage")
    for found in [*globals_of(storage), *globals_of(keys)]:
        if (found.module, found.name) not in KNOWN_GLOBALS:
            raise PickleProblem(f"its storage names {_shown(str(found))}; nothing of it was run")
    _storage_key(storage, {keys[0]: b""})
    head = stream.read(8)
    count = struct.unpack("<q", head)[0] if len(head) == 8 else -1
    rest = stream.read()
    if count < 0 or FLOAT_BYTES * count != len(rest):
        raise PickleProblem(f"a storage of {count} elements in {len(rest)} bytes: cut off")
    return rest


def _storage_key(node: Persistent, storages: dict[str, bytes]) -> str:
    reference = node.reference
    if not isinstance(reference, tuple) or len(reference) < 3 or reference[0] != "storage":
        raise PickleProblem("a reference to no storage")
    if reference[1] != Global("torch", "FloatStorage"):
        raise PickleProblem(f"a storage of {_shown(reference[1])}, expected torch.FloatStorage")
    key = reference[2]
    if not isinstance(key, str) or key not in storages:
        raise PickleProblem(f"its storage {_shown(key)} is missing: cut off")
    return key


def _recipe(module: str, node: object) -> dict[str, object]:
    """The recipe's kind and, of delayed scaling, the settings that decide the next update."""
    is_object = isinstance(node, Call) and isinstance(node.function, Global)
    if not is_object or node.function.module != RECIPES:
        raise _problem(module, "recipe", "not a recipe of Transformer Engine")
    kind = node.function.name
    if kind in STATELESS:
        return {"recipe": kind}
    if kind != DELAYED:
        raise _problem(
            module, "recipe", f"{_shown(kind)}: no recipe of 1.13 to 2.20 keeps state so"
        )
    settings = node.state
    if not isinstance(settings, dict):
        raise _problem(module, "recipe", "a recipe without settings")
    found: dict[str, object] = {"recipe": "delayed"}
    for name, kinds in (
        ("margin", (int, float)),
        ("amax_history_len", (int,)),
        ("amax_compute_algo", (str,)),
    ):
        value = settings.get(name)
        if not isinstance(value, kinds):
            raise _problem(module, f"recipe.{name}", "is missing or of another type")
        if not isinstance(value, str) and not -LARGEST_SETTING <= value <= LARGEST_SETTING:
            raise _problem(module, f"recipe.{name}", "is no number of a recipe")
        found[name] = value
    found["fp8_format"] = _format(module, settings.get("fp8_format"))
    return found


def _format(module: str, node: object) -> str:
    """An enum's member: by its value, or, as some Pythons write it, by its name."""
    arguments = node.arguments if isinstance(node, Call) else ()
    if len(arguments) == 1 and isinstance(arguments[0], Call):
        largest = tuple(v for v in arguments[0].arguments if isinstance(v, (int, float)))
        if largest in FORMATS:
            return FORMATS[largest]
    if len(arguments) == 2 and arguments[0] == Global(RECIPES, "Format"):
        name = arguments[1].lower() if isinstance(arguments[1], str) else ""
        if name in FORMATS.values():
            return name
    raise _problem(module, "recipe.fp8_format", "no FP8 format of Transformer Engine")


def _are_sizes(values: object) -> bool:
    is_short = isinstance(values, tuple) and len(values) <= MOST_DIMENSIONS
    return is_short and all(
        isinstance(v, int) and not isinstance(v, bool) and 0 <= v < ARCHIVE_LIMIT for v in values
    )


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _shown(text: object) -> str:
    """At most a line of printable characters, whatever was in the file: of tuples within tuples,
    which can be deep, or small in the file and endless in print, and of numbers only their kind."""
    is_text = isinstance(text, (str, bytes, Global))
    shown = str(text)[:80] if is_text else f"<{type(text).__name__}>"
    return "".join(c if c.isprintable() else "?" for c in shown)


def _problem(module: str, field: str, what: str) -> ExtraStateProblem:
    place = f"{module}: extra state" + (f", field {field}" if field else "")
    return ExtraStateProblem(f"{place}: {what}")
