"""Runs one phase as one rank: the order of steps, saves and states, and the record of how it
ended. The record must exist however the framework fails, and must hold its exact words; a rank
that dies without one is told apart from a rank whose framework raised. torch's CheckpointException
derives from BaseException, so nothing less is caught.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from harness.adapters.python.adapter import Adapter, Place, bind, check_overrides, rank_state
from harness.adapters.python.phase_request import PhaseRequest
from harness.adapters.python.state_file import write_rank_state, write_whole

FLOOD_BYTES = 200_000_000
FLOOD_LINE = b"x" * 99_999 + b"\n"
UNSUPPORTED = "Unsupported"  # exception.type of a record that asks for SKIP(message)


class RaisedOnPurpose(RuntimeError):
    """The raise_exception fault."""


class ScenarioError(Exception):
    """A scenario's own code that cannot be run: the author's mistake, not the framework's."""


class Progress:
    """Announces each part of a phase before it begins, and lets the rank faults happen there."""

    def __init__(self, request: PhaseRequest, rank: int) -> None:
        self._request = request
        self._rank = rank
        self.part = ""
        self.step = 0  # last step completed

    def enter(self, part: str) -> None:
        self.part = part
        write_whole(self._request.records / f"progress_rank{self._rank}", [f"{part}\n".encode()])
        for fault in self._request.faults:
            happen = RANK_FAULTS.get(fault.name)
            if happen and fault.at == part and fault.rank in (None, self._rank):
                happen(part)


def run_phase(adapter: type[Adapter], request: PhaseRequest, place: Place) -> bool:
    """Returns whether it ended well. States, progress and record are files of the request."""
    start = time.monotonic()
    progress = Progress(request, place.rank)
    run = None
    exception = None
    try:
        reason = adapter.supports(request)
        if reason:
            exception = {"type": UNSUPPORTED, "message": reason, "traceback": ""}
        else:
            run = adapter(request, place)
            _run(run, progress)
    except BaseException as problem:
        exception = _described(problem)
    record = {
        "schema": 1,
        "phase": progress.part,
        "ok": exception is None,
        "step": progress.step,
        "exception": exception,
        "seconds": round(time.monotonic() - start, 6),
        "notes": run.notes if run else [],
    }
    write_whole(request.records / f"exit_rank{place.rank}.json", [json.dumps(record).encode()])
    sys.stdout.flush()
    sys.stderr.flush()
    return exception is None


def _run(run: Adapter, progress: Progress) -> None:
    request, settings = run.request, run.settings
    progress.enter("save_run step 0" if request.saves else "load")
    if run.variables:
        run.notes.append("set before import: " + _assignments(run.variables))
    verbs = bind(run, _scenario(request.scenario_file))
    verbs.build()

    def keep(step: int) -> None:
        state = rank_state(run, step, *verbs.state())
        write_rank_state(request.states / f"step{step}", state)

    def train(numbers: range, kept: Callable[[int], bool]) -> None:
        for number in numbers:
            progress.enter(f"save_run step {number}" if request.saves else f"step {number}")
            verbs.step(number)
            progress.step = number
            if kept(number):
                keep(number)

    def save(checkpoint: Path) -> None:
        progress.enter("save")
        checkpoint.mkdir(parents=True, exist_ok=True)
        verbs.save(checkpoint)

    if request.saves:
        keep(0)
        train(range(1, settings.save_after + 1), lambda number: number >= settings.save_after - 1)
        save(request.checkpoint)
    else:
        verbs.load(request.checkpoint)
        progress.step = settings.save_after
        keep(settings.save_after)
    train(range(settings.save_after + 1, settings.train_until + 1), lambda number: True)
    if request.next_checkpoint:
        save(request.next_checkpoint)
    run.close()


def _scenario(file: Path | None) -> ModuleType | None:
    """The scenario's own code, under a name that no package can have."""
    if file is None:
        return None
    spec = importlib.util.spec_from_file_location(f"resumecheck scenario {file.stem}", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        check_overrides(module)
    except Exception as problem:
        place = f"{file}:{line}" if (line := _line_of(problem, file)) else f"{file}"
        what = problem.msg if isinstance(problem, SyntaxError) else str(problem)
        raise ScenarioError(f"{place}: {type(problem).__name__}: {what}") from problem
    return module


def _line_of(problem: Exception, file: Path) -> int | None:
    """Where in the file it went wrong, however deep below that it was raised."""
    if isinstance(problem, SyntaxError) and problem.filename == str(file):
        return problem.lineno
    frames = traceback.extract_tb(problem.__traceback__)
    return next((f.lineno for f in reversed(frames) if f.filename == str(file)), None)


def _described(problem: BaseException) -> dict[str, str]:
    try:
        message = str(problem)
    except Exception as failure:  # an exception class of the framework's own can be broken too
        message = f"(its message cannot be had: {failure!r})"
    return {
        "type": type(problem).__name__,
        "message": _encodable(message),
        "traceback": _encodable("".join(traceback.format_exception(problem))),
    }


def _encodable(text: str) -> str:
    """Half a surrogate pair, as undecodable file names have it, is no JSON for strict readers."""
    return text.encode("utf-8", "backslashreplace").decode()


def _assignments(variables: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(variables.items()))


def _kill_rank(part: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _hang_rank(part: str) -> None:
    while True:
        time.sleep(3600)


def _flood_output(part: str) -> None:
    for _ in range(FLOOD_BYTES // len(FLOOD_LINE)):
        os.write(1, FLOOD_LINE)


def _raise_exception(part: str) -> None:
    raise RaisedOnPurpose(f"raised on purpose in {part}")


def _exit_early(part: str) -> None:
    os._exit(0)


RANK_FAULTS: dict[str, Callable[[str], None]] = {
    "kill_rank": _kill_rank,
    "hang_rank": _hang_rank,
    "flood_output": _flood_output,
    "raise_exception": _raise_exception,
    "exit_early": _exit_early,
}
