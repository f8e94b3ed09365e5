"""The six verbs under which the harness drives a framework, and `state`. An adapter never
compares, never repairs and never catches what its framework raises: a framework's failure is the
result, and softening it here would make a broken resume look like a working one.

One object is one rank of one phase. A save run calls build, step..., save, step...; a resume run,
in a new process, calls build (from another seed and with another lr, so that nothing is right by
accident), load, step.... After each step that is compared, the harness writes what state() gives.

To write an adapter, copy plain_python.py, which needs nothing but the standard library. It is one
module with one subclass of Adapter; declare in harness/scenario what the harness must know before
any Python runs (options, save formats, parts).

A scenario that is a .py file may override verbs: a module-level function named as a verb
(build, step, save, load, state) is called instead of it, with the original bound verb first, then
the run (this object), then the verb's own arguments:

    def load(original, run, folder):   # likewise: step(original, run, number)
        original(folder)
        ...                            # here run.model, run.optimizer, ... of that adapter
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import inspect
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

from harness.adapters.python.phase_request import Optimizer, PhaseRequest, chunk
from harness.adapters.python.state_file import Piece, RankState

OVERRIDABLE = ("build", "step", "save", "load", "state")


def set_before_import(variables: dict[str, str]) -> dict[str, str]:
    """Sets environment variables that a framework reads once, while it is imported. Call it above
    the framework's own import. What the user's shell says is overruled: the bits depend on it."""
    os.environ.update(variables)
    return variables


@dataclasses.dataclass(frozen=True)
class Place:
    """Where one rank of a phase sits.

    coordinates: {"rep": 1, "dp": 0}. local_rank: among the ranks of its machine, which is the GPU
    it takes. meeting_point: a file of this phase alone, on which its ranks find each other.
    temporary: where frameworks keep what must not outlive the run, such as compiled steps; shared
    by the phases of one rank server's ranks, a fresh start's own.
    """

    rank: int
    world: int
    coordinates: dict[str, int]
    local_rank: int
    meeting_point: Path
    temporary: Path


class Adapter:
    """Base of every adapter; the methods that raise NotImplementedError are the verbs to write."""

    variables: dict[str, str] = {}  # what set_before_import was given
    packages: tuple[str, ...] = ()  # distributions whose versions the results name
    stand_ins: tuple[str, ...] = ()  # what is not the real thing here; the results name it

    def __init__(self, request: PhaseRequest, place: Place) -> None:
        self.request = request
        self.settings = request.settings
        self.place = place
        self.notes: list[str] = []  # shown with the result, one sentence each

    @classmethod
    def versions(cls) -> dict[str, str]:
        """Distribution -> version, as installed: {"torch": "2.8.0"}."""
        return {name: importlib.metadata.version(name) for name in cls.packages}

    @classmethod
    def supports(cls, request: PhaseRequest) -> str | None:
        """None, or why this adapter cannot run the request: shown as SKIP(reason)."""
        return None

    def build(self) -> None:
        """Fresh parameters, from settings.initial_values rounded to param_dtype, on the request's
        mesh, and a fresh optimizer with what first_optimizer says."""
        raise NotImplementedError

    def step(self, number: int) -> None:
        """One optimizer step, 1-based. The gradient is settings.gradient of this rank's rows,
        rounded to param_dtype and put in place as the shard; no averaging comes between."""
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        """Writes a checkpoint in settings.save_format. All ranks call it; folder exists."""
        raise NotImplementedError

    def load(self, folder: Path) -> None:
        """Loads what save wrote, on this request's mesh, as the framework's users would."""
        raise NotImplementedError

    def state(self) -> tuple[list[Piece], dict[str, bool | int | float | str]]:
        """Every bit on this rank that decides the next step: pieces under their mesh-free names,
        as found, never converted; and what is no tensor ("lr/0": the first group's lr)."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends what build started, such as a process group."""

    @property
    def first_optimizer(self) -> Optimizer:
        """What build gives its optimizer. A resume begins with other values than the run that
        saved: the checkpoint has the right ones, and a load that leaves its lr, betas, eps or
        weight decay out must not be right by accident."""
        given = self.settings.optimizer
        return given if self.request.saves else given.another()

    def rows(self, name: str) -> range:
        """The rows of a parameter that this rank holds: dim 0 sharded over dp, all of it over
        rep."""
        shards = self.request.size_of("dp")
        return chunk(self.settings.parameters[name][0], shards, self.place.coordinates.get("dp", 0))


@dataclasses.dataclass(frozen=True)
class Verbs:
    """The verbs of one run, those that the scenario overrides already bound."""

    build: Callable[[], None]
    step: Callable[[int], None]
    save: Callable[[Path], None]
    load: Callable[[Path], None]
    state: Callable[[], tuple[list[Piece], dict]]


def bind(run: Adapter, scenario: ModuleType | None) -> Verbs:
    return Verbs(**{name: _verb(run, scenario, name) for name in OVERRIDABLE})


def check_overrides(scenario: ModuleType) -> None:
    """A misspelt verb would be no verb, and the scenario green without its own code."""
    for name, value in vars(scenario).items():
        if name in OVERRIDABLE or not inspect.isfunction(value):
            continue
        if next(iter(inspect.signature(value).parameters), None) == "original":
            raise NameError(
                f"{name} takes `original`, but is no verb; verbs are {', '.join(OVERRIDABLE)}"
            )
    if not any(hasattr(scenario, name) for name in OVERRIDABLE):
        raise NameError(
            f"overrides none of {', '.join(OVERRIDABLE)}; a scenario without code is a .toml file"
        )


def rank_state(run: Adapter, step: int, pieces: Iterable[Piece], values: dict) -> RankState:
    place = run.place
    return RankState(
        place.rank, place.world, run.request.mesh, place.coordinates, step, list(pieces), values
    )


def _verb(run: Adapter, scenario: ModuleType | None, name: str) -> Callable:
    original = getattr(run, name)
    override = getattr(scenario, name, None)
    if override is None:
        return original
    return lambda *arguments: override(original, run, *arguments)
