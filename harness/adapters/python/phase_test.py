"""One phase as one rank, without a framework: order, records, overrides, and resumes of the plain
adapter on any mesh. Ranks of plain_python need no other rank, so they run one after the other."""

import itertools
import json
import struct

import pytest
from safetensors.numpy import load_file, safe_open

from harness.adapters.python.adapter import Place
from harness.adapters.python.phase import run_phase
from harness.adapters.python.phase_request import chunk, read_phase_request
from harness.adapters.python.plain_python import PlainPython
from harness.adapters.python.request_builder import write_request


def run(folder, adapter=PlainPython, **changes):
    """Every rank of a phase; their exit records."""
    request = read_phase_request(write_request(folder, **changes))
    for rank in range(request.world):
        place = Place(
            rank, request.world, request.coordinates(rank), rank, folder / "filestore", folder
        )
        run_phase(adapter, request, place)
    return [
        json.loads((request.records / f"exit_rank{rank}.json").read_text())
        for rank in range(request.world)
    ]


def resume(save_folder, folder, onto, **changes):
    return run(
        folder,
        phase="resume_run",
        mesh=onto,
        checkpoint=str(save_folder / "checkpoint"),
        **changes,
    )


def assembled(folder, step):
    """(name, part) -> bytes in global order."""
    boxes = {}
    for file in (folder / "states" / f"step{step}").iterdir():
        tensors = load_file(file)
        with safe_open(file, framework="numpy") as opened:
            record = json.loads(opened.metadata()["resumecheck"])
        for key, about in record["tensors"].items():
            tensor = boxes.setdefault((about["name"], about["part"]), {})
            tensor[tuple(about["offsets"])] = tensors[key].tobytes()
    return {
        key: b"".join(data for _, data in sorted(found.items())) for key, found in boxes.items()
    }


@pytest.mark.parametrize(
    ("source", "target"), list(itertools.product(["dp1", "dp2", "dp3", "rep2dp2"], repeat=2))
)
def test_a_resume_is_the_run_that_went_on(tmp_path, source, target):
    save, load = tmp_path / "save", tmp_path / "load"
    records = run(save, mesh=source) + resume(save, load, target)
    assert all(record["ok"] for record in records), records
    for step in (3, 4, 5):
        assert assembled(save, step) == assembled(load, step), f"step {step}"
    assert assembled(save, 3) != assembled(save, 4), "the state must move, or nothing was tested"


def test_a_resume_that_another_follows_saves_what_it_reached(tmp_path):
    save, first, second = tmp_path / "save", tmp_path / "first", tmp_path / "second"
    run(save, mesh="dp2")
    records = resume(save, first, "dp1", train_until=4, next_checkpoint=str(first / "checkpoint"))
    records += resume(first, second, "dp2", save_after=4)
    assert all(record["ok"] for record in records), records
    assert records[0]["phase"] == "save"
    for step in (4, 5):
        assert assembled(save, step) == assembled(second, step), f"step {step}"


def test_a_resume_run_that_loads_nothing_is_another_run(tmp_path):
    class NeverLoads(PlainPython):
        def load(self, folder):
            self.count = 3

    save, load = tmp_path / "save", tmp_path / "load"
    run(save)
    resume(save, load, "dp1", adapter=NeverLoads)
    assert assembled(save, 3) != assembled(load, 3), "the other seed must show what was not loaded"


def test_a_resume_begins_with_another_optimizer(tmp_path):
    """Else a load that leaves the param_groups out would be right by accident."""
    began = {}

    class Tells(PlainPython):
        def build(self):
            super().build()
            began[self.request.phase] = self.first_optimizer

        def load(self, folder):
            own = self.lr
            super().load(folder)
            began["loaded"], self.lr = self.lr, own

    run(tmp_path / "save", Tells)
    resume(tmp_path / "save", tmp_path / "load", "dp1", adapter=Tells)
    saving, resuming = began["save_run"], began["resume_run"]
    for name in ("lr", "betas", "eps", "weight_decay"):
        assert getattr(saving, name) != getattr(resuming, name), name
    assert began["loaded"] == saving.lr
    assert assembled(tmp_path / "save", 4) != assembled(tmp_path / "load", 4), (
        "an lr that was not loaded must show"
    )


def test_states_are_kept_where_the_harness_compares(tmp_path):
    run(tmp_path / "save")
    resume(tmp_path / "save", tmp_path / "load", "dp1")
    kept = [sorted(f.name for f in (tmp_path / p / "states").iterdir()) for p in ("save", "load")]
    assert kept == [["step0", "step2", "step3", "step4", "step5"], ["step3", "step4", "step5"]]


class Checkpointed(BaseException):
    """As torch's CheckpointException: no Exception."""


@pytest.mark.parametrize(
    ("verb", "phase", "part", "step"),
    [
        ("build", "save_run", "save_run step 0", 0),
        ("step", "save_run", "save_run step 1", 0),
        ("save", "save_run", "save", 3),
        ("load", "resume_run", "load", 0),
        ("state", "resume_run", "load", 3),
        ("step", "resume_run", "step 4", 3),
    ],
)
def test_what_a_framework_raises_is_recorded_in_its_own_words(tmp_path, verb, phase, part, step):
    def raises(self, *arguments):
        raise Checkpointed("expected bf16\n\nbut got fp32 \udcff")

    run(tmp_path / "save")
    adapter = type("Raises", (PlainPython,), {verb: raises})
    (record,) = run(
        tmp_path / "phase", adapter, phase=phase, checkpoint=str(tmp_path / "save" / "checkpoint")
    )
    assert (record["ok"], record["phase"], record["step"]) == (False, part, step)
    assert record["exception"]["type"] == "Checkpointed"
    assert record["exception"]["message"] == "expected bf16\n\nbut got fp32 \\udcff"
    assert "Checkpointed: expected bf16" in record["exception"]["traceback"]
    assert (tmp_path / "phase" / "records" / "progress_rank0").read_text() == f"{part}\n"


def test_an_unsupported_request_says_why(tmp_path):
    (record,) = run(tmp_path, param_dtype="bf16")
    assert not record["ok"]
    assert record["exception"]["type"] == "Unsupported"
    assert record["exception"]["message"] == "plain_python computes in fp32"


def test_a_scenario_overrides_verbs(tmp_path):
    scenario = tmp_path / "scenario.py"
    scenario.write_text(
        "def step(original, run, number):\n"
        "    original(number)\n"
        "    run.notes.append(f'step {number} of {run.count}')\n"
    )
    (record,) = run(tmp_path / "save", scenario_file=str(scenario))
    assert record["notes"] == [f"step {k} of {k}" for k in range(1, 6)]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def lod(original, run, folder):\n    original(folder)\n", "lod takes `original`"),
        ("def step(original, *_):\n    pass\n\ndef sav(original, *_):\n    pass\n", "sav takes"),
        ("BATCH = 4\n", "overrides none of build, step"),
    ],
)
def test_code_of_a_scenario_that_would_never_be_called_is_an_error(tmp_path, code, words):
    scenario = tmp_path / "scenario.py"
    scenario.write_text(code)
    (record,) = run(tmp_path / "save", scenario_file=str(scenario))
    assert words in (record["exception"] or {"message": "it ran"})["message"]


@pytest.mark.parametrize(
    ("code", "place"),
    [
        ("import json\n\ndef step(:\n", ":3: SyntaxError: "),
        ("import json\nimport no_such_module\n", ":2: ModuleNotFoundError: No module named"),
        ("def f():\n    raise ValueError('no')\n\n\nf()\n", ":2: ValueError: no"),
    ],
)
def test_a_scenario_that_cannot_be_run_names_the_line_before_anything_is_built(
    tmp_path, code, place
):
    class NeverBuilt(PlainPython):
        def build(self):
            raise AssertionError("it was built")

    scenario = tmp_path / "scenario.py"
    scenario.write_text(code)
    (record,) = run(tmp_path / "save", NeverBuilt, scenario_file=str(scenario))
    assert record["exception"]["type"] == "ScenarioError"
    assert f"{scenario}{place}" in record["exception"]["message"]
    assert (record["phase"], record["step"]) == ("save_run step 0", 0)


@pytest.mark.parametrize(
    ("rows", "count"), list(itertools.product([0, 1, 3, 7, 8, 96], [1, 2, 3, 4, 8]))
)
def test_shards_split_as_torch_chunk_does(rows, count):
    shards = [chunk(rows, count, index) for index in range(count)]
    assert [row for shard in shards for row in shard] == list(range(rows))
    assert all(
        len(shard) == -(-rows // count) for shard in shards[: rows // (-(-rows // count) or 1)]
    )


def test_ranks_are_laid_out_first_dim_slowest(tmp_path):
    request = read_phase_request(write_request(tmp_path, mesh="rep2dp3"))
    assert [request.coordinates(rank) for rank in (0, 2, 3, 5)] == [
        {"rep": 0, "dp": 0},
        {"rep": 0, "dp": 2},
        {"rep": 1, "dp": 0},
        {"rep": 1, "dp": 2},
    ]


def test_ordinals_follow_bytewise_order(tmp_path):
    parameters = {"b": [1], "a.x": [1], "a": [1], "Z": [1]}
    request = read_phase_request(write_request(tmp_path, parameters=parameters))
    assert [request.settings.ordinal(name) for name in ("Z", "a", "a.x", "b")] == [0, 1, 2, 3]


def test_a_request_with_a_missing_key_is_refused_by_name(tmp_path):
    file = write_request(tmp_path)
    content = json.loads(file.read_text())
    del content["settings"]["seed"]
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="phase_request.json.*seed"):
        read_phase_request(file)


def test_momentum_is_what_the_formula_says(tmp_path):
    """Two steps of one element by hand, from its gradients."""
    run(tmp_path, parameters={"w": [1]}, save_after=1, train_until=2)
    request = read_phase_request(tmp_path / "phase_request.json")
    fp32 = lambda x: struct.unpack("f", struct.pack("f", x))[0]  # noqa: E731
    param, moment = float(request.settings.initial_values("w", range(1))[0]), 0.0
    for step in (1, 2):
        moment = fp32(0.9 * moment + float(request.settings.gradient("w", range(1), step)[0]))
        param = fp32(param - request.settings.optimizer.lr * moment)
    state = assembled(tmp_path, 2)
    assert state[("w", "param")] == struct.pack("f", param)
    assert state[("w", "moment1.values")] == struct.pack("f", moment)
    assert state[("w", "step")] == struct.pack("f", 2.0)
