"""What clusters do to a rank server: every way a phase can end, and that nothing of it stays. The
subject is plain_python, so no framework is needed; what the harness sees of it is only files."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.adapters.python.phase_process import OUTPUT_END_BYTES
from harness.adapters.python.request_builder import write_request

SERVER = Path(__file__).with_name("rank_server.py")
PATIENCE = 60  # seconds until a test gives up; far beyond what anything here takes


def until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {PATIENCE} s for {what}"
        time.sleep(0.005)
    return found


def json_of(file):
    until(file.exists, file.name)
    return json.loads(file.read_text())


def is_running(pid):
    """Zombies do not run."""
    with contextlib.suppress(OSError):
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


def children_of(pid):
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Server:
    """A rank server started as a launcher would; `ask` gives it a phase and waits for its end."""

    def __init__(self, folder, adapter="plain_python", rank=0, search=None):
        self.folder, self.rank, self.sequence = folder, rank, 0
        self.scratch = folder / "scratch"
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, SERVER, "--scratch", self.scratch, "--adapter", adapter],
            env=launched(rank, 2, search),
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def ready(self):
        return json_of(self.scratch / f"ready_rank{self.rank}.json")

    def send(self, limit_s=PATIENCE, world=1, **changes):
        """The phase's records folder."""
        self.sequence += 1
        request = write_request(self.folder / f"phase{self.sequence}", **changes)
        message = {
            "schema": 1,
            "sequence": self.sequence,
            "world": world,
            "limit_s": limit_s,
            "request": str(request),
        }
        self.put(f"request_{self.sequence}.json", json.dumps(message))
        return request.parent / "records"

    def ask(self, **changes):
        """How the phase ended, and its records folder."""
        records = self.send(**changes)
        return self.done(), records

    def done(self):
        return json_of(self.scratch / f"done_{self.sequence}_rank{self.rank}.json")

    def put(self, name, text=""):
        temporary = self.scratch / f".{name}"
        temporary.write_text(text)
        temporary.rename(self.scratch / name)

    def child(self):
        (pid,) = until(lambda: children_of(self.process.pid), "a child of the server")
        return pid

    def stop(self):
        self.put("stop")
        return self.process.wait(PATIENCE)


@pytest.fixture
def server(tmp_path):
    with Server(tmp_path) as started:
        started.ready()
        yield started


def launched(rank, world, search=None):
    """The environment that Open MPI's launcher gives."""
    variables = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(world)}
    if search:
        variables["PYTHONPATH"] = str(search)
    return {**os.environ, **variables}


def fault(name, at="save_run step 4", rank=0):
    return [{"name": name, "rank": rank, "at": at}]


def still_serves(server):
    done, records = server.ask()
    record = json_of(records / "exit_rank0.json")
    return (done["how"], done["process"], record["ok"]) == ("finished", "forked", True)


def test_it_tells_what_it_is_and_forks_for_a_phase(server):
    ready = server.ready()
    assert (ready["rank"], ready["pid"]) == (0, server.process.pid)
    assert (ready["threads"], ready["can_fork"], ready["why_not"]) == (1, True, "")
    done, records = server.ask()
    assert done["how"] == "finished" and done["process"] == "forked"
    assert (done["exit_status"], done["signal"]) == (0, 0)
    assert json_of(records / "exit_rank0.json")["ok"]
    assert (records / "progress_rank0").read_text() == "save_run step 5\n"
    assert server.stop() == 0


def test_ranks_beyond_the_world_of_a_phase_leave_it_alone(tmp_path):
    with Server(tmp_path, rank=1) as server:
        server.ready()
        server.send(world=1)
        server.send(world=2, mesh="dp2")
        assert server.done()["how"] == "finished"
        assert not (server.scratch / "done_1_rank1.json").exists()


def test_a_killed_phase_is_told_by_its_signal(server):
    done, records = server.ask(faults=fault("kill_rank"))
    assert (done["how"], done["signal"]) == ("killed", signal.SIGKILL)
    assert not (records / "exit_rank0.json").exists()
    assert (records / "progress_rank0").read_text() == "save_run step 4\n"
    assert still_serves(server)


def test_a_hung_phase_is_ended_and_leaves_its_stacks(server):
    done, records = server.ask(faults=fault("hang_rank", "save_run step 0"), limit_s=3)
    assert done["how"] == "hung"
    assert "_hang_rank" in (records / "stacks_rank0.txt").read_text()
    assert still_serves(server)


def test_a_flood_of_output_is_bounded_and_counted(server):
    done, records = server.ask(faults=fault("flood_output"))
    assert done["how"] == "finished"
    output = (records / "output_rank0.txt").read_bytes()
    assert b" bytes dropped]" in output
    assert len(output) < 2 * OUTPUT_END_BYTES + 100
    assert json_of(records / "exit_rank0.json")["ok"], "a flood alone is no failure"
    assert still_serves(server)


def test_an_early_exit_leaves_no_record(server):
    done, records = server.ask(faults=fault("exit_early", "save"))
    assert (done["how"], done["exit_status"]) == ("finished", 0)
    assert not (records / "exit_rank0.json").exists()
    assert still_serves(server)


def test_an_exception_is_a_finished_phase(server):
    done, records = server.ask(faults=fault("raise_exception", "save_run step 2"))
    assert (done["how"], done["exit_status"]) == ("finished", 0)
    exception = json_of(records / "exit_rank0.json")["exception"]
    assert exception["message"] == "raised on purpose in save_run step 2"
    assert still_serves(server)


def test_a_fault_of_another_rank_does_not_happen_here(server):
    done, _ = server.ask(faults=fault("kill_rank", rank=1))
    assert done["how"] == "finished"


def test_a_cancelled_phase_is_ended(server):
    server.send(faults=fault("hang_rank"))
    child = server.child()
    server.put("cancel_1")
    assert server.done()["how"] == "cancelled"
    assert not is_running(child)
    assert still_serves(server)


def test_stop_ends_a_running_phase_too(server):
    server.send(faults=fault("hang_rank"))
    child = server.child()
    assert server.stop() == 0
    until(lambda: not is_running(child), "the end of the phase's process")


def test_a_request_that_cannot_be_read_ends_only_itself(server):
    server.sequence += 1
    message = {"schema": 1, "sequence": 1, "world": 1, "limit_s": 9, "request": "/nowhere.json"}
    server.put("request_1.json", json.dumps(message))
    assert server.done()["exit_status"] == 1
    assert still_serves(server)


def test_nothing_stays_behind_between_phases(server):
    def held():
        pid = server.process.pid
        return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))

    server.ask()
    before = held()
    for name in ("kill_rank", "exit_early", "raise_exception", "hang_rank"):
        server.ask(faults=fault(name, "save_run step 0"), limit_s=1)
        assert children_of(server.process.pid) == []
    assert held() == before
    hidden = [f for f in server.folder.rglob(".*") if f.is_file()]
    assert not hidden, "temporary files stayed"


def keeps_a_temporary_file(tmp_path):
    """A scenario's code that leaves one, and tells where."""
    scenario, told = tmp_path / "scenario.py", tmp_path / "told"
    scenario.write_text(
        "import subprocess, tempfile\n"
        "def build(original, run):\n"
        "    original()\n"
        "    left = tempfile.mkdtemp() + ' ' + subprocess.getoutput('mktemp -u')\n"
        f"    open({str(told)!r}, 'w').write(left)\n"
    )
    return str(scenario), told


def test_what_a_framework_leaves_among_temporary_files_lies_in_the_scratch(server, tmp_path):
    scenario, told = keeps_a_temporary_file(tmp_path)
    server.ask(scenario_file=scenario)
    places = [Path(left).parent for left in told.read_text().split()]
    assert places == [server.scratch / "tmp"] * 2


def test_a_fresh_start_takes_its_temporary_files_along(tmp_path):
    scenario, told = keeps_a_temporary_file(tmp_path)
    assert once(write_request(tmp_path, scenario_file=scenario)).returncode == 0
    places = [Path(left).parent for left in told.read_text().split()]
    assert places == [tmp_path / "records" / "tmp_rank0"] * 2
    assert not places[0].exists(), "temporary files stayed"


def test_processes_that_a_phase_started_end_with_it(server, tmp_path):
    """Even one in a session of its own that holds the output open."""
    scenario, pids = tmp_path / "scenario.py", tmp_path / "pids"
    scenario.write_text(
        "import subprocess, sys\n"
        "def build(original, run):\n"
        "    original()\n"
        "    started = [subprocess.Popen(['sleep', '1000'], start_new_session=own)"
        " for own in (False, True)]\n"
        f"    open({str(pids)!r}, 'w').write(' '.join(str(s.pid) for s in started))\n"
    )
    done, _ = server.ask(scenario_file=str(scenario))
    assert done["how"] == "finished"
    left = [int(pid) for pid in pids.read_text().split() if is_running(int(pid))]
    assert not left


def test_the_server_and_its_phase_end_with_the_launcher(tmp_path):
    """The launcher here is a Python that starts the server and waits."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, str(SERVER), "--scratch", str(scratch), "--adapter", "plain_python"]
    launcher = subprocess.Popen(
        [sys.executable, "-c", f"import subprocess; subprocess.call({command!r})"],
        env=launched(0, 1),
    )
    server = Server.__new__(Server)
    server.folder, server.scratch, server.rank, server.sequence = tmp_path, scratch, 0, 0
    pid = server.ready()["pid"]
    server.send(faults=fault("hang_rank"))
    (child,) = until(lambda: children_of(pid), "a child of the server")
    launcher.kill()
    launcher.wait()
    until(lambda: not is_running(pid), "the end of the server")
    until(lambda: not is_running(child), "the end of the phase's process")


def test_a_framework_that_cannot_be_imported_is_told(tmp_path):
    with Server(tmp_path, adapter="no_such_framework") as server:
        assert "no_such_framework" in server.ready()["error"]
        assert server.process.wait(PATIENCE) == 0


def own_adapter(tmp_path, name, text):
    """An adapter outside the tree, in a folder that PYTHONPATH names."""
    folder = tmp_path / "search" / "harness" / "adapters" / "python"
    folder.mkdir(parents=True)
    (folder / f"{name}.py").write_text(text)
    return tmp_path / "search"


def test_with_threads_after_the_import_every_phase_starts_afresh(tmp_path):
    search = own_adapter(
        tmp_path,
        "threaded",
        "import threading, time\n"
        "from harness.adapters.python.plain_python import PlainPython as ADAPTER\n"
        "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n",
    )
    with Server(tmp_path, adapter="threaded", search=search) as server:
        assert server.ready()["why_not"] == "2 threads after the import"
        done, records = server.ask(adapter="threaded")
        assert (done["how"], done["process"]) == ("finished", "new")
        assert json_of(records / "exit_rank0.json")["ok"], (
            records / "output_rank0.txt"
        ).read_text()
        done, records = server.ask(adapter="threaded", faults=fault("hang_rank"), limit_s=5)
        assert done["how"] == "hung"
        assert "_hang_rank" in (records / "stacks_rank0.txt").read_text()


def test_an_adapter_that_exits_while_imported_is_told(tmp_path):
    search = own_adapter(tmp_path, "leaves", "raise SystemExit('no licence')\n")
    with Server(tmp_path, adapter="leaves", search=search) as server:
        assert server.ready()["error"] == "SystemExit: no licence"
        assert server.process.wait(PATIENCE) == 0


def once(request, rank=0, world=1):
    return subprocess.run(
        [sys.executable, SERVER, "--once", request],
        env=launched(rank, world),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


def test_once_runs_one_phase_in_a_new_process(tmp_path):
    request = write_request(tmp_path, mesh="dp2")
    for rank in (0, 1):
        assert once(request, rank, 2).returncode == 0
        assert json_of(tmp_path / "records" / f"exit_rank{rank}.json")["ok"]


def test_once_exits_0_whatever_the_framework_raises(tmp_path):
    done = once(write_request(tmp_path, faults=fault("raise_exception", "save")))
    assert done.returncode == 0
    assert not json_of(tmp_path / "records" / "exit_rank0.json")["ok"]


def test_once_refuses_a_launcher_that_started_another_number_of_ranks(tmp_path):
    done = once(write_request(tmp_path, mesh="dp2"), 0, 1)
    assert done.returncode == 1
    assert "mesh dp2 has 2 ranks, the launcher started 1" in done.stderr
