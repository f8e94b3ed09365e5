"""`resumecheck list` and `doctor` as other programs use them: the fields of --json, the exit codes,
and that nothing is left out because it cannot run. What every command line may get wrong, too."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("RESUMECHECK_BUILD", ROOT / "build")) / "resumecheck"

SCENARIO = """summary = "a property"
origin = ["owner/repo#1"]
labels = ["quick"]
adapters = [{adapters}]
[model]
embed = [16, 256]
[[resume]]
from = "dp2"
onto = ["dp1"]
[[known_broken]]
when = "adapter == 'reference'"
symptom = "step 4"
origin = "owner/repo#1"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("scenarios/subject", "golden", "tools"):
        (tmp_path / folder).mkdir(parents=True)
    return tmp_path


def resumecheck(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    if not PROGRAM.exists():
        pytest.fail(f"{PROGRAM} is missing: build the project, or set RESUMECHECK_BUILD")
    variables = {**os.environ, "RESUMECHECK_ROOT": str(root), "RESUMECHECK_CACHE": str(root / "c")}
    return subprocess.run(
        [PROGRAM, *arguments], capture_output=True, text=True, check=False, env=variables
    )


def write(root: Path, *adapters: str) -> None:
    text = SCENARIO.format(adapters=", ".join(f'"{name}"' for name in adapters))
    (root / "scenarios/subject/holds.toml").write_text(text)


def test_json_has_the_fields_of_the_contract(root: Path) -> None:
    write(root, "reference", "torchao")
    answer = resumecheck(root, "list", "--json", "--launcher", "sh -c {n}")
    assert answer.returncode == 0, answer.stderr
    native, python = json.loads(answer.stdout)
    assert native == {
        "case": "subject/holds[reference,dp2->dp1]",
        "scenario": "subject/holds",
        "variant": "",
        "adapter": "reference",
        "save_environment": None,
        "load_environment": None,
        "from": "dp2",
        "onto": "dp1",
        "summary": "a property",
        "origin": ["owner/repo#1"],
        "labels": ["quick"],
        "known_broken": {"origin": "owner/repo#1", "symptom": "step 4"},
        "runnable": True,
        "reason": None,
    }
    assert python["known_broken"] is None
    assert python["runnable"] is False
    assert "has torchao" in python["reason"]


def test_versions_are_those_of_the_environments_record(root: Path) -> None:
    write(root, "torchao")
    tools, made = root / "tools", root / "c/environments/one-0123456789abcdef"
    (tools / "environments.toml").write_text('[environments.one]\npackages = ["torchao==1.0"]\n')
    (tools / "locks").mkdir()
    (tools / "locks/one.lock").write_text("lock\n")
    (made / "bin").mkdir(parents=True)
    (made / "bin/python").write_text("")
    (made / "requirements.lock").write_text("lock\n")
    (made / "environment.json").write_text('{"schema": 1, "packages": {"torchao": "1.0+cpu"}}')
    (case,) = json.loads(resumecheck(root, "list", "--json").stdout)
    assert case["save_environment"] == {"name": "one", "packages": {"torchao": "1.0+cpu"}}


def test_the_table_tells_what_cannot_run_and_why(root: Path) -> None:
    write(root, "reference", "torchao")
    answer = resumecheck(root, "list", "--launcher", "sh")
    assert "run  subject/holds[reference,dp2->dp1]\n" in answer.stdout
    assert "skip subject/holds[torchao@none,dp2->dp1]   no environment" in answer.stdout
    assert "2 cases: 1 can run here, 1 cannot\n" in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["subject/hold"], "did you mean 'subject/holds'?"),
        (["--label", "nightly"], "no scenario has that label"),
        (["--adapter", "referense"], "did you mean 'reference'?"),
        (["--env", "one"], "no environment is called 'one'"),
        (["missing.toml"], "no such scenario file"),
        (["--device", "tpu"], "--device"),
    ],
)
def test_a_mistake_is_a_usage_error_of_one_line(
    root: Path, arguments: list[str], words: str
) -> None:
    write(root, "reference")
    answer = resumecheck(root, "list", *arguments)
    assert answer.returncode == 2
    assert words in answer.stderr
    assert answer.stdout == ""


def test_a_bad_scenario_file_is_named_with_its_line(root: Path) -> None:
    write(root, "reference")
    bad = root / "scenarios/subject/bad.toml"
    bad.write_text('summary = "x"\nadaptors = ["reference"]\n')
    answer = resumecheck(root, "list")
    assert answer.returncode == 2
    assert answer.stderr.count("\n") == 1
    assert f"{bad}:2:1: unknown key 'adaptors'; did you mean 'adapters'?" in answer.stderr


def test_doctor_counts_what_can_run(root: Path) -> None:
    write(root, "torchao")
    answer = resumecheck(root, "doctor")
    assert answer.returncode == 3, "nothing at all can run here"
    assert "0 of 1 can run here" in answer.stdout
    assert "1 cannot: no environment" in answer.stdout
    for label in ("compiler", "vector", "gpus", "nccl", "mpi", "adapter"):
        assert f"\n{label} " in answer.stdout


def test_an_option_leaves_the_pattern_behind_it_alone(root: Path) -> None:
    write(root, "reference", "torchao")
    for option in (["--adapter", "reference"], ["--label", "quick"]):
        answer = resumecheck(root, "list", *option, "subject/holds[reference*")
        assert answer.returncode == 0, answer.stderr
        assert answer.stdout.endswith("1 case: 1 can run here, 0 cannot\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lits"], "lits: there is no such command; did you mean 'list'?"),
        (["run", "--require", "torch-28"], "nothing is skipped for a reason like that"),
        (["run", "--require", "cud"], "did you mean 'cuda'?"),
        (["run", "--env", "mine="], "the path is empty"),
        (["run", "--launcher", ""], "is empty"),
        (["run", "--out", ""], "--out '': is no folder"),
        (["run", "--junit", "no/such/folder/x.xml"], "there is no folder"),
        (["run", "--junit", "/"], "is a folder"),
        (["run", "--time-limit", "nan"], "--time-limit"),
        (["run", "--defect", "stale_shard:3"], "has no rank and no moment of its own"),
        (["run", "--defect", "kill_rank:0:lod"], "'lod' is no moment"),
    ],
)
def test_what_would_be_ignored_is_a_usage_error(
    root: Path, arguments: list[str], words: str
) -> None:
    write(root, "reference")
    out = ["--out", str(root / "out")] if arguments[0] == "run" and "--out" not in arguments else []
    answer = resumecheck(root, *arguments, *out)
    assert answer.returncode == 2, answer.stdout + answer.stderr
    assert words in answer.stderr
    assert not (root / "out/results.jsonl").exists()


@pytest.mark.parametrize("arguments", [("list", "--json"), ("--version",), ("--help",)])
def test_output_that_a_full_disk_cut_off_is_no_success(
    root: Path, arguments: tuple[str, ...]
) -> None:
    write(root, "reference")
    variables = {**os.environ, "RESUMECHECK_ROOT": str(root), "RESUMECHECK_CACHE": str(root / "c")}
    with open("/dev/full", "w") as full:
        answer = subprocess.run([PROGRAM, *arguments], stdout=full, check=False, env=variables)
    assert answer.returncode == 3


def test_a_table_is_of_results_and_of_nothing_else(root: Path) -> None:
    for text in ("", "hello\n", '{"schema": 2, "run_id": "r", "machine": {}}\n'):
        (root / "results.jsonl").write_text(text)
        answer = resumecheck(root, "table", str(root / "results.jsonl"))
        assert answer.returncode == 2, answer.stdout
        assert "results.jsonl:1" in answer.stderr
        assert answer.stderr.count("\n") == 1
