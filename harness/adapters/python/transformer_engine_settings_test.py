"""Which run a request asks Transformer Engine for, decided without torch: nothing that runs later
can see that it was another one.
"""

import math

import pytest

from harness.adapters.python import philox
from harness.adapters.python.phase_request import read_phase_request
from harness.adapters.python.request_builder import SETTINGS, write_request
from harness.adapters.python.transformer_engine_settings import (
    SAMPLES,
    Fp8Module,
    batches,
    injected_amaxes,
    modules,
    name_in_engine,
    samples,
    why_not,
)

PARAMETERS = ("norm.weight", "norm.bias", "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias")


@pytest.fixture
def request_with(tmp_path):
    def make(**changes):
        changes = {
            "model": {**SETTINGS["model"], "kind": "layernorm_mlp", "width": 48, "hidden": 96},
            "optimizer": {**SETTINGS["optimizer"], "name": "adamw"},
            "fp8": {**SETTINGS["fp8"], "recipe": "delayed"},
            "save_format": "dcp",
            **changes,
        }
        return read_phase_request(write_request(tmp_path, **changes))

    return make


@pytest.mark.parametrize("kind", ["layernorm_mlp", "linear", "layernorm_linear"])
def test_every_parameter_has_a_place_of_its_own(kind):
    names = [f"layers.{i}.{leaf}" for i in range(2) for leaf in PARAMETERS]
    assert len({name_in_engine(kind, name) for name in names}) == len(names)


def test_a_parameter_is_named_as_its_module_has_it():
    name = "layers.1.norm.bias"
    assert name_in_engine("layernorm_mlp", name) == "layers.1.layer_norm_bias"
    assert name_in_engine("layernorm_linear", name) == "layers.1.fc1.layer_norm_bias"
    assert name_in_engine("linear", name) == name
    assert name_in_engine("layernorm_mlp", "layers.0.fc2.weight") == "layers.0.fc2_weight"


def test_modules_are_of_the_kind_asked_for(request_with):
    assert modules(request_with()) == [Fp8Module("layers.0", 0, 2), Fp8Module("layers.1", 1, 2)]
    linear = modules(request_with(options={"module": "linear"}))
    assert [m.name for m in linear] == [
        "layers.0.fc1",
        "layers.0.fc2",
        "layers.1.fc1",
        "layers.1.fc2",
    ]
    assert [m.ordinal for m in linear] == [0, 1, 2, 3]


@pytest.mark.parametrize("backward", [False, True])
def test_only_the_maximum_over_all_ranks_is_right(request_with, backward):
    settings, module, world = request_with().settings, Fp8Module("layers.1", 1, 2), 3
    told = [injected_amaxes(settings, module, 5, backward, r, world) for r in range(world)]
    tensors = 2 if backward else 3
    for column in range(tensors * 2):
        seen = [told[r][column] for r in range(world)]
        if column % tensors == tensors - 1:
            assert seen == [0.0] * world
            continue
        whole = philox.amax(settings.seed, 1, 5, backward, column)
        assert max(seen) == whole
        assert sorted(seen)[:-1] == [whole / 2] * (world - 1)
        assert seen.index(whole) == (5 + column) % world


@pytest.mark.parametrize(
    ("mesh", "accumulate"), [("dp1", 1), ("dp3", 1), ("rep3", 1), ("dp1", 3), ("rep2dp2", 1)]
)
def test_every_sample_is_computed_once(request_with, mesh, accumulate):
    request = request_with(mesh=mesh, save_mesh=mesh, accumulate=accumulate)
    everyone = [batches(request, rank) for rank in range(request.world)]
    assert [s for rank in everyone for batch in rank for s in batch] == list(range(SAMPLES))
    assert all(len(rank) == accumulate for rank in everyone)


def test_a_sample_has_its_features_whoever_computes_it(request_with):
    settings = request_with().settings
    whole = samples(settings, philox.Stream.DATA, 4, range(SAMPLES))
    part = samples(settings, philox.Stream.DATA, 4, range(8, 16))
    assert list(part) == list(whole[8 * 48 : 16 * 48])
    assert list(part) != list(samples(settings, philox.Stream.TARGETS, 4, range(8, 16)))
    assert len(whole) == math.prod((SAMPLES, 48))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"model": SETTINGS["model"]}, "layernorm_mlp"),
        ({"optimizer": SETTINGS["optimizer"]}, "AdamW"),
        ({"master_dtype": "fp32"}, "master"),
        ({"save_format": "native"}, "no way of saving native"),
        ({"mesh": "dp2", "options": {"wrap": "none"}}, "no shards"),
        ({"mesh": "dp2", "save_mesh": "dp1", "save_format": "torch_save"}, "the mesh that saved"),
        ({"mesh": "dp2", "gradients": "model"}, "multiples of 8 samples at once, and there are 12"),
        ({"mesh": "dp3", "gradients": "model"}, None),
        (
            {
                "model": {**SETTINGS["model"], "kind": "layernorm_mlp", "hidden": 96},
                "gradients": "model",
            },
            "multiples of 16: width is 24",
        ),
    ],
)
def test_what_no_release_can_run_is_said_in_words(request_with, changes, reason):
    found = why_not(request_with(**changes))
    assert found is None if reason is None else reason in found
