"""Environments: a half-made one is never used, one of another lock never served, two makers make it
once. uv is replaced by a stand-in that makes a folder with a Python, so nothing is downloaded."""

import importlib.machinery
import importlib.util
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parent


def load_program():
    loader = importlib.machinery.SourceFileLoader("environments", str(TOOLS / "environments"))
    spec = importlib.util.spec_from_file_location(loader.name, loader.path, loader=loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module  # dataclasses look there
    loader.exec_module(module)
    return module


environments = load_program()


class StandInForUv:
    """Makes what `uv venv` makes, counts, and fails or waits where told."""

    def __init__(self):
        self.calls = []
        self.fails_at = None
        self.seconds = 0

    def __call__(self, name, *arguments, stdin=None):
        self.calls.append(arguments)
        if arguments[0] == "venv":
            time.sleep(self.seconds)
            python = Path(arguments[-1]) / "bin" / "python"
            python.parent.mkdir(parents=True)
            python.symlink_to(sys.executable)
        if arguments[0] == self.fails_at:
            raise environments.Problem(f"{name}: uv {arguments[0]} fails: no network")

    def count(self, verb):
        return sum(arguments[0] == verb for arguments in self.calls)


@pytest.fixture
def uv(monkeypatch, tmp_path):
    """A project of two environments in tmp_path/project, its cache in tmp_path/cache."""
    project = tmp_path / "project"
    (project / "tools" / "locks").mkdir(parents=True)
    (project / "tools" / "requirements.lock").write_text("pytest==1\n")
    (project / "tools" / "describe_environment.py").write_bytes(
        (TOOLS / "describe_environment.py").read_bytes()
    )
    (project / "tools" / "environments.toml").write_text(
        '[environments."torch-2.8"]\npackages = ["torch==2.8.0"]\n'
        '[environments.mine]\npython = "/opt/python"\n'
    )
    (project / "tools" / "locks" / "torch-2.8.lock").write_text("torch==2.8.0 --hash=sha256:0\n")
    monkeypatch.setattr(environments, "ROOT", project)
    monkeypatch.setenv("RESUMECHECK_CACHE", str(tmp_path / "cache"))
    stand_in = StandInForUv()
    monkeypatch.setattr(environments, "uv", stand_in)
    return stand_in


def declared(name="torch-2.8"):
    return environments.read_environments(environments.ROOT / "tools" / "environments.toml")[name]


def in_cache():
    return sorted(
        path.name for path in environments.environments_folder().iterdir() if path.is_dir()
    )


def test_a_made_environment_says_what_it_is(uv):
    environment = declared()
    folder = environments.make(environment)
    digest = environments.hashlib.sha256(environment.lock.read_bytes()).hexdigest()[:16]
    assert folder == environments.environments_folder() / f"torch-2.8-{digest}"
    assert (folder / "requirements.lock").read_bytes() == environment.lock.read_bytes()
    record = json.loads((folder / "environment.json").read_text())
    assert (record["schema"], record["name"]) == (1, "torch-2.8")
    assert record["python"] == sys.version.split()[0]
    assert in_cache() == [folder.name]


def test_it_is_made_once(uv):
    environments.make(declared())
    environments.make(declared())
    assert uv.count("venv") == 1


@pytest.mark.parametrize("fails_at", ["venv", "pip"])
def test_a_failure_leaves_nothing(uv, fails_at):
    uv.fails_at = fails_at
    with pytest.raises(environments.Problem, match="torch-2.8: .*no network"):
        environments.make(declared())
    assert in_cache() == []
    uv.fails_at = None
    assert environments.make(declared()).exists()


def test_a_failing_check_leaves_nothing(uv):
    environment = environments.dataclasses.replace(declared(), check="raise ImportError('no libc')")
    with pytest.raises(environments.Problem, match="check fails: ImportError: no libc"):
        environments.make(environment)
    assert in_cache() == []


def test_what_a_killed_maker_left_is_not_used(uv):
    left = declared().folder.with_name(f".{declared().folder.name}.making")
    left.mkdir(parents=True)
    (left / "environment.json").write_text("{}")
    assert not declared().made()
    environments.make(declared())
    assert in_cache() == [declared().folder.name]


@pytest.mark.parametrize("lost", ["environment.json", "bin/python", "requirements.lock"])
def test_one_that_lost_a_part_is_made_again(uv, lost):
    folder = environments.make(declared())
    (folder / lost).unlink()
    assert not declared().made()
    assert environments.make(declared()) == folder
    assert (folder / lost).exists()
    assert uv.count("venv") == 2


def test_a_changed_lock_is_another_environment(uv):
    before = environments.make(declared())
    declared().lock.write_text("torch==2.8.1 --hash=sha256:1\n")
    assert not declared().made()
    assert environments.make(declared()) != before


def test_two_makers_at_once_make_it_once(uv):
    uv.seconds = 0.3
    made = []
    makers = [
        threading.Thread(target=lambda: made.append(environments.make(declared())))
        for _ in range(2)
    ]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert made == [declared().folder] * 2
    assert uv.count("venv") == 1


def test_prune_keeps_what_is_asked_for(uv, tmp_path):
    kept = environments.make(declared())
    old = kept.with_name("torch-2.7-0123456789abcdef")
    half = kept.with_name(".torch-2.8-fedcba9876543210.making")
    being_made = kept.with_name(".torch-2.9-0000000000000000.making")
    old_tools = tmp_path / "cache" / "tools-0000000000000000"
    for folder in (old, half, being_made, old_tools):
        folder.mkdir()
        (folder / "file").write_bytes(bytes(100_000))
    with environments.held(kept.with_name(".torch-2.9-0000000000000000.lock")):
        removed = dict(environments.prune({"torch-2.8": declared()}))
    assert set(removed) == {old, half, old_tools}
    assert all(size >= 100_000 for size in removed.values())
    assert in_cache() == sorted([kept.name, being_made.name])


def test_a_python_of_ones_own_is_used_as_it_is(uv):
    assert environments.make(declared("mine")) == Path("/opt/python")
    assert uv.calls == []


def test_a_missing_lock_names_the_command(uv):
    declared().lock.unlink()
    with pytest.raises(environments.Problem, match="run: tools/environments lock torch-2.8"):
        environments.make(declared())


def test_too_old_a_python_is_told(uv):
    environment = environments.dataclasses.replace(declared(), lowest_python="9.9")
    with pytest.raises(environments.Problem, match="needs Python 9.9 or later"):
        environments.make(environment)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[environments.a]\npackage = ["torch"]\n', "unknown key 'package'"),
        ("[environments.a]\n", "either packages or python"),
        ('[environments.a]\npackages = []\npython = "x"\n', "either packages or python"),
        ("[environments.a\n", "environments.toml"),
        ("", "environments.toml"),
    ],
)
def test_a_bad_declaration_is_refused(uv, text, complaint):
    file = environments.ROOT / "tools" / "environments.toml"
    file.write_text(text)
    with pytest.raises(environments.Problem, match=complaint):
        environments.read_environments(file)


def test_an_unreachable_index_is_one_line():
    said = (
        "  x Failed to download `torch==2.8.0`\n  |-> dns error\n  `-> failed to lookup address\n"
    )
    assert environments.reason(said) == (
        "no package index can be reached; run again with a network (`-> failed to lookup address)"
    )


def test_a_program_that_fails_is_told_in_its_last_words():
    command = [sys.executable, "-c", "print('much'); raise SystemExit('this')"]
    with pytest.raises(environments.Problem, match="^made, but: this$"):
        environments.run("made, but", command)


def test_sizes_count_a_file_once(tmp_path):
    (tmp_path / "a").write_bytes(bytes(1_000_000))
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    assert 1_000_000 <= environments.bytes_in(tmp_path) < 1_100_000


def test_list_says_what_is_made(uv):
    lines = list(environments.describe_all({n: declared(n) for n in ("torch-2.8", "mine")}))
    assert lines[0].split()[:3] == ["torch-2.8", "not", "made"]
    assert lines[1].split() == ["mine", "own", "/opt/python"]
    environments.make(declared())
    (line,) = environments.describe_all({"torch-2.8": declared()})
    assert line.split()[:2] == ["torch-2.8", "made"]


def test_a_python_describes_itself():
    script = str(TOOLS / "describe_environment.py")
    printed = subprocess.run([sys.executable, script, "mine"], capture_output=True, check=True)
    record = json.loads(printed.stdout)
    assert (record["schema"], record["name"]) == (1, "mine")
    assert record["packages"]["pytest"] == pytest.__version__
    assert "typing_extensions" not in record["packages"], "names are normalised"
