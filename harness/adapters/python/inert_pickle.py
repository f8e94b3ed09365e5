"""Reads a Python pickle as data: lists, dicts, numbers, bytes, and, where the pickle would import
or call something, a note of what. Nothing is imported, called or looked up, whatever the bytes
say, so that a checkpoint from anywhere can be read before anyone decides to trust it.

pickle.Unpickler with an own find_class is not that: it still runs constructors, methods and the
copyreg registry of the running program. Here each opcode moves data between a stack and a memo.
"""

from __future__ import annotations

import dataclasses
import io
import pickletools
from collections.abc import Callable

NODES_LIMIT = 1_000_000  # opcodes of one pickle: an extra state has some hundreds


class PickleProblem(ValueError):
    """What is wrong with the bytes, and where; of the pickle alone, not of what it should hold."""


@dataclasses.dataclass(frozen=True)
class Global:
    """A class or function that the pickle names."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclasses.dataclass(eq=False)
class Call:
    """What the pickle would call, and the state it would give to the result."""

    function: object
    arguments: tuple
    state: object = None


@dataclasses.dataclass(frozen=True)
class Persistent:
    """A reference to something outside of the pickle: of torch's, a storage."""

    reference: object


_MARK = object()


def read_pickle(stream: io.BytesIO) -> object:
    """The object of the pickle that starts here; the stream is left behind its end."""
    machine = _Machine()
    start = stream.tell()
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(stream)):
            if count > NODES_LIMIT:
                raise PickleProblem(f"more than {NODES_LIMIT} opcodes")
            if opcode.name == "STOP":
                return machine.result()
            machine.take(opcode.name, argument)
    except PickleProblem:
        raise
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as problem:
        where = stream.tell() - start
        raise PickleProblem(f"not a whole pickle (byte {where}): {problem}") from problem
    raise PickleProblem("a pickle without an end")


class _Machine:
    def __init__(self) -> None:
        self.stack: list = []
        self.memo: dict[int, object] = {}

    def take(self, name: str, argument: object) -> None:
        if name in _PUSHES:
            self.stack.append(argument)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in _ACTIONS:
            _ACTIONS[name](self, argument)
        elif name not in _NO_EFFECT:
            raise PickleProblem(f"opcode {name}, which no extra state has")

    def result(self) -> object:
        if len(self.stack) != 1 or self.stack[0] is _MARK:
            raise PickleProblem("ends in the middle of an object")
        return self.stack[0]

    def pop(self) -> object:
        value = self.stack.pop()
        if value is _MARK:
            raise PickleProblem("a mark where a value must be")
        return value

    def pop_to_mark(self) -> list:
        items = []
        while (value := self.stack.pop()) is not _MARK:
            items.append(value)
        return items[::-1]

    def pop_many(self, count: int) -> tuple:
        return tuple(self.pop() for _ in range(count))[::-1]


def _set_items(machine: _Machine, items: list) -> None:
    target = machine.stack[-1]
    if not isinstance(target, dict) or len(items) % 2:
        raise PickleProblem("items of no dict")
    for key, value in zip(items[::2], items[1::2], strict=True):
        target[_key(key)] = value


def _append(machine: _Machine, items: list) -> None:
    if not isinstance(machine.stack[-1], list):
        raise PickleProblem("elements of no list")
    machine.stack[-1].extend(items)


def _key(value: object) -> object:
    if not isinstance(value, (str, bytes, int, float, bool, type(None))):
        raise PickleProblem(f"a dict's key is a {type(value).__name__}")
    return value


def _build(machine: _Machine) -> None:
    state = machine.pop()
    if not isinstance(machine.stack[-1], Call):
        raise PickleProblem("state of something that was not made")
    machine.stack[-1].state = state


def _global(argument: object) -> Global:
    module, _, name = str(argument).partition(" ")
    return Global(module, name)


def _call(machine: _Machine, count: int) -> None:
    values = machine.pop_many(count)
    arguments = values[1]
    if not isinstance(arguments, tuple):
        raise PickleProblem("arguments that are no tuple")
    machine.stack.append(Call(values[0], arguments))


def _stack_global(machine: _Machine) -> None:
    module, name = machine.pop_many(2)
    if not isinstance(module, str) or not isinstance(name, str):
        raise PickleProblem("a global without a name")
    machine.stack.append(Global(module, name))


def _instance(machine: _Machine, argument: object) -> None:
    machine.stack.append(Call(_global(argument), tuple(machine.pop_to_mark())))


def _object(machine: _Machine) -> None:
    function, *arguments = machine.pop_to_mark()
    machine.stack.append(Call(function, tuple(arguments)))


def _pairs(machine: _Machine) -> None:
    items = machine.pop_to_mark()
    machine.stack.append({})
    _set_items(machine, items)


def _pushed(make: Callable[[_Machine], object]) -> Callable[[_Machine, object], None]:
    return lambda machine, _: machine.stack.append(make(machine))


_NO_EFFECT = {"PROTO", "FRAME"}
_PUSHES = {
    "INT",
    "BININT",
    "BININT1",
    "BININT2",
    "LONG",
    "LONG1",
    "LONG4",
    "FLOAT",
    "BINFLOAT",
    "STRING",
    "BINSTRING",
    "SHORT_BINSTRING",
    "UNICODE",
    "BINUNICODE",
    "SHORT_BINUNICODE",
    "BINUNICODE8",
    "BINBYTES",
    "SHORT_BINBYTES",
    "BINBYTES8",
    "BYTEARRAY8",
}
_CONSTANTS: dict[str, Callable[[], object]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
    "MARK": lambda: _MARK,
}
_ACTIONS: dict[str, Callable[[_Machine, object], object]] = {
    "POP": lambda machine, _: machine.stack.pop(),
    "POP_MARK": lambda machine, _: machine.pop_to_mark(),
    "DUP": lambda machine, _: machine.stack.append(machine.stack[-1]),
    "LIST": _pushed(lambda machine: machine.pop_to_mark()),
    "TUPLE": _pushed(lambda machine: tuple(machine.pop_to_mark())),
    "TUPLE1": _pushed(lambda machine: machine.pop_many(1)),
    "TUPLE2": _pushed(lambda machine: machine.pop_many(2)),
    "TUPLE3": _pushed(lambda machine: machine.pop_many(3)),
    "DICT": lambda machine, _: _pairs(machine),
    "APPEND": lambda machine, _: _append(machine, [machine.pop()]),
    "APPENDS": lambda machine, _: _append(machine, machine.pop_to_mark()),
    "SETITEM": lambda machine, _: _set_items(machine, list(machine.pop_many(2))),
    "SETITEMS": lambda machine, _: _set_items(machine, machine.pop_to_mark()),
    "GLOBAL": lambda machine, argument: machine.stack.append(_global(argument)),
    "STACK_GLOBAL": lambda machine, _: _stack_global(machine),
    "REDUCE": lambda machine, _: _call(machine, 2),
    "NEWOBJ": lambda machine, _: _call(machine, 2),
    "NEWOBJ_EX": lambda machine, _: _call(machine, 3),
    "BUILD": lambda machine, _: _build(machine),
    "INST": _instance,
    "OBJ": lambda machine, _: _object(machine),
    "PERSID": lambda machine, argument: machine.stack.append(Persistent(argument)),
    "BINPERSID": _pushed(lambda machine: Persistent(machine.pop())),
    "MEMOIZE": lambda machine, _: machine.memo.update({len(machine.memo): machine.stack[-1]}),
}
for _put in ("PUT", "BINPUT", "LONG_BINPUT"):
    _ACTIONS[_put] = lambda machine, at: machine.memo.update({at: machine.stack[-1]})
for _get in ("GET", "BINGET", "LONG_BINGET"):
    _ACTIONS[_get] = lambda machine, at: machine.stack.append(machine.memo[at])


def globals_of(value: object) -> list[Global]:
    """Every class and function that is named anywhere in what was read; cycles end."""
    found: list[Global] = []
    seen: set[int] = set()
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, Global):
            found.append(item)
            continue
        if not isinstance(item, (list, tuple, dict, Call, Persistent)) or id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, dict):
            left += [*item.keys(), *item.values()]
        elif isinstance(item, Call):
            left += [item.function, *item.arguments, item.state]
        elif isinstance(item, Persistent):
            left.append(item.reference)
        else:
            left += item
    return found
