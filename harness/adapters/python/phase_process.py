"""The process in which a rank server runs one phase. However it ends, nothing of it may stay: no
process it started, no descriptor, no unbounded output; and how it ended must be known from the
kernel, not from what it says of itself.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

STACKS_SECONDS = 1.0  # for a hung process to write its stacks
DRAIN_SECONDS = 1.0  # for the rest of an ended process's output
OUTPUT_END_BYTES = 64 * 1024  # kept of each end of its output
READ_BYTES = 1 << 20
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


class BoundedOutput:
    """The first and the last OUTPUT_END_BYTES of a stream; what lies between is only counted."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        room = OUTPUT_END_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        extra = len(self._tail) - OUTPUT_END_BYTES
        if extra > 0:
            del self._tail[:extra]
            self._dropped += extra

    def text(self) -> bytes:
        gap = f"\n[{self._dropped} bytes dropped]\n".encode() if self._dropped else b""
        return bytes(self._head) + gap + bytes(self._tail)


class PhaseProcess:
    """A child in a process group of its own, its output read here through a pipe."""

    def __init__(self, body: Callable[[], None]) -> None:
        """Runs `body` in a fork of this process, which then exits 0, or 1 if it raised."""
        self.output = BoundedOutput()
        self.status: int | None = None  # as waitpid gives it
        self._pipe, write_end = os.pipe()
        os.set_blocking(self._pipe, False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, READ_BYTES)
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _become_child(body, parent, self._pipe, write_end)
        os.close(write_end)
        with contextlib.suppress(OSError):  # the child does the same; whoever is first
            os.setpgid(self.pid, self.pid)
        self._pidfd = os.pidfd_open(self.pid)

    def wait(self, seconds: float) -> bool:
        """Reads output until the process has ended or the time is over; whether it has ended."""
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            ready, _, _ = select.select(self._sources(), [], [], max(left, 0))
            if self._pipe in ready:
                self._read()
            if self._pidfd in ready:
                return True
            if left <= 0:
                return False

    def end(self, with_stacks: bool) -> None:
        """Ends it by force, after it had a moment to write its stacks."""
        if with_stacks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGUSR1)
            self.wait(STACKS_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait(DRAIN_SECONDS)

    def close(self) -> None:
        """Takes its status and whatever it left behind: processes, output, descriptors."""
        os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        _, self.status = os.waitpid(self.pid, 0)
        end_adopted_children()
        deadline = time.monotonic() + DRAIN_SECONDS
        while self._pipe >= 0 and (left := deadline - time.monotonic()) > 0:
            if select.select([self._pipe], [], [], left)[0]:
                self._read()
        self._close_pipe()
        os.close(self._pidfd)

    @property
    def signal(self) -> int:
        """That ended it; 0: it exited."""
        return os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else 0

    @property
    def exit_status(self) -> int:
        return os.WEXITSTATUS(self.status) if os.WIFEXITED(self.status) else 0

    def _sources(self) -> list[int]:
        return [self._pidfd] + ([self._pipe] if self._pipe >= 0 else [])

    def _read(self) -> None:
        try:
            data = os.read(self._pipe, READ_BYTES)
        except BlockingIOError:
            return
        if data:
            self.output.add(data)
        else:
            self._close_pipe()

    def _close_pipe(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1


def die_with_parent(parent: int) -> None:
    """Asks the kernel to kill this process when its parent dies; at once if it already has."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Processes that a phase's process leaves behind become children of this one."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_adopted_children() -> None:
    """Kills every child that is left. A killed one's own children are adopted in turn."""
    while children := _children():
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children() -> list[int]:
    file = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in file.read_text().split()] if file.exists() else []


def _become_child(body: Callable[[], None], parent: int, read_end: int, write_end: int) -> None:
    """Never returns into the server's code."""
    try:
        os.setpgid(0, 0)
        die_with_parent(parent)
        os.close(read_end)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (write_end, 1), (write_end, 2)):
            os.dup2(source, target)
        os.close(null)
        os.close(write_end)
        body()
        status = 0
    except BaseException:
        traceback.print_exc()
        status = 1
    with contextlib.suppress(Exception):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")
