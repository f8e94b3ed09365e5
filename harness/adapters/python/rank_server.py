"""One rank of Python frameworks: a server that imports the framework once and forks for every
phase, or, with --once, a fresh process for one phase. A resume must be a new process, but an
import costs seconds; a fork is one only while the parent has a single thread and no GPU context,
so that is checked every time, and where it does not hold the phase starts afresh and says so.

Whatever a phase does, it ends with that phase: the server survives, keeps nothing of it, and tells
how it ended. Harness and servers speak through files that appear whole, in the --scratch folder:
  ready_rank<r>.json, done_<n>_rank<r>.json              written here
  request_<n>.json, cancel_<n>, stop                     written by the harness
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import json
import os
import platform
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
# The adapters' folder must not be searched: its torchao.py is not the framework's torchao.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE] + [str(ROOT)]

from harness.adapters.python.adapter import Adapter, Place  # noqa: E402
from harness.adapters.python.phase import run_phase  # noqa: E402
from harness.adapters.python.phase_process import (  # noqa: E402
    PhaseProcess,
    adopt_orphans,
    die_with_parent,
)
from harness.adapters.python.phase_request import PhaseRequest, read_phase_request  # noqa: E402
from harness.adapters.python.state_file import write_whole  # noqa: E402

SCHEMA = 1
IDLE_SECONDS = 0.005  # between looks at the scratch folder
WATCH_SECONDS = 0.02  # the same while a phase runs
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
WORLD_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS")
LOCAL_RANK_VARIABLES = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")


class RankServer:
    def __init__(self, scratch: Path, adapter_name: str) -> None:
        self.scratch = scratch
        self.adapter_name = adapter_name
        self.rank = launched_as(RANK_VARIABLES, 0)
        self.parent = os.getppid()

    def run(self) -> None:
        """Until the harness says stop or the launcher is gone."""
        adopt_orphans()
        keep_temporary_files_in(self.scratch / "tmp")
        started = time.monotonic()
        try:
            self.adapter = load_adapter(self.adapter_name)
            ready = self._ready(time.monotonic() - started)
        except BaseException as problem:
            traceback.print_exc()
            ready = {"error": f"{type(problem).__name__}: {problem}"}
        self._tell(f"ready_rank{self.rank}.json", {"rank": self.rank, **ready})
        sequence = 1
        while "error" not in ready and not self._over():
            file = self.scratch / f"request_{sequence}.json"
            if not file.exists():
                time.sleep(IDLE_SECONDS)
                continue
            self._answer(sequence, json.loads(file.read_text()))
            sequence += 1

    def _ready(self, seconds: float) -> dict:
        obstacle = why_not_fork()
        return {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "versions": {**self.adapter.versions(), "python": platform.python_version()},
            "stand_ins": list(self.adapter.stand_ins),
            "threads": thread_count(),
            "can_fork": not obstacle,
            "why_not": obstacle,
            "seconds": round(seconds, 3),
        }

    def _answer(self, sequence: int, message: dict) -> None:
        if self.rank >= message["world"]:
            return
        started = time.monotonic()
        how = {"how": "finished", "signal": 0, "exit_status": 1, "process": "new"}
        try:
            request = read_phase_request(Path(message["request"]))
            how = self._run_phase(sequence, request, Path(message["request"]), message["limit_s"])
        except (OSError, ValueError):
            traceback.print_exc()
        how["seconds"] = round(time.monotonic() - started, 6)
        self._tell(f"done_{sequence}_rank{self.rank}.json", how)

    def _run_phase(self, sequence: int, request: PhaseRequest, file: Path, limit_s: float) -> dict:
        request.records.mkdir(parents=True, exist_ok=True)
        forked = not why_not_fork()
        process = PhaseProcess(
            (lambda: run_here(self.adapter, request, self.rank))
            if forked
            else (lambda: start_afresh(file, request.world))
        )
        how = self._watch(process, sequence, limit_s)
        process.close()
        output = request.records / f"output_rank{self.rank}.txt"
        write_whole(output, [process.output.text()])
        if how == "finished" and process.signal:
            how = "killed"
        return {
            "how": how,
            "signal": process.signal,
            "exit_status": process.exit_status,
            "process": "forked" if forked else "new",
        }

    def _watch(self, process: PhaseProcess, sequence: int, limit_s: float) -> str:
        deadline = time.monotonic() + limit_s
        cancel = self.scratch / f"cancel_{sequence}"
        while not process.wait(WATCH_SECONDS):
            if cancel.exists():
                process.end(with_stacks=True)
                return "cancelled"
            if time.monotonic() > deadline:
                process.end(with_stacks=True)
                return "hung"
            if self._over():
                process.end(with_stacks=False)
                return "cancelled"
        return "finished"

    def _over(self) -> bool:
        return (self.scratch / "stop").exists() or os.getppid() != self.parent

    def _tell(self, name: str, content: dict) -> None:
        write_whole(self.scratch / name, [json.dumps({"schema": SCHEMA, **content}).encode()])


def keep_temporary_files_in(folder: Path) -> Path:
    """A phase ends without the interpreter's own clean-up, so what a framework leaves among the
    temporary files (torch does, once it is imported) must lie where the run removes it."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    return folder


def load_adapter(name: str) -> type[Adapter]:
    """Imports harness/adapters/python/<name>.py, and with it the framework."""
    return importlib.import_module(f"harness.adapters.python.{name}").ADAPTER


def run_here(adapter: type[Adapter], request: PhaseRequest, rank: int) -> None:
    """Runs a phase as one rank of it, in this process, which should end afterwards."""
    place = Place(
        rank=rank,
        world=request.world,
        coordinates=request.coordinates(rank),
        local_rank=launched_as(LOCAL_RANK_VARIABLES, rank),
        meeting_point=request.records / "filestore",
        temporary=Path(tempfile.gettempdir()),
    )
    stacks = os.open(
        request.records / f"stacks_rank{rank}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    )
    faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
    run_phase(adapter, request, place)


def run_once(file: Path) -> None:
    """A fresh start of one phase. The exit status says nothing of how the framework fared."""
    request = read_phase_request(file)
    rank = launched_as(RANK_VARIABLES, 0)
    world = launched_as(WORLD_VARIABLES, 1)
    if world != request.world:
        raise SystemExit(
            f"{file}: mesh {request.mesh} has {request.world} ranks, the launcher started {world}; "
            f"none of {', '.join(WORLD_VARIABLES)} may be set"
        )
    temporary = keep_temporary_files_in(request.records / f"tmp_rank{rank}")
    run_here(load_adapter(request.adapter), request, rank)
    shutil.rmtree(temporary, ignore_errors=True)


def start_afresh(file: Path, world: int) -> None:
    """Replaces this process by a fresh start of the phase on its own number of ranks."""
    for name in WORLD_VARIABLES:
        if name in os.environ:
            os.environ[name] = str(world)
    os.execv(sys.executable, [sys.executable, __file__, "--once", str(file)])


def why_not_fork() -> str:
    """Empty where a fork of this process is as good as a new one."""
    threads = thread_count()
    if threads != 1:
        return f"{threads} threads after the import"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "a CUDA context after the import"
    return ""


def thread_count() -> int:
    return len(os.listdir("/proc/self/task"))


def launched_as(variables: tuple[str, ...], default: int) -> int:
    """What the launcher says of this process, whichever launcher it was."""
    return next((int(os.environ[name]) for name in variables if name in os.environ), default)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--once", type=Path, metavar="REQUEST", help="run one phase and exit")
    parser.add_argument("--scratch", type=Path, metavar="FOLDER", help="serve through this folder")
    parser.add_argument("--adapter", metavar="NAME", help="of the server: torchao, plain_python")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    die_with_parent(os.getppid())
    if arguments.once:
        run_once(arguments.once)
    elif arguments.scratch and arguments.adapter:
        faulthandler.register(signal.SIGUSR1)
        RankServer(arguments.scratch, arguments.adapter).run()
    else:
        parser.error("give --once REQUEST, or --scratch FOLDER and --adapter NAME")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
