"""What torchao is asked for, without torchao."""

import pytest

from harness.adapters.python.phase_request import read_phase_request
from harness.adapters.python.request_builder import SETTINGS, write_request
from harness.adapters.python.torchao_settings import (
    is_compiled,
    not_as_asked,
    one_byte_a_code,
    why_not,
)


def request(folder, optimizer=None, options=None, **changes):
    wanted = {**SETTINGS["optimizer"], "name": "adamw8bit", **(optimizer or {})}
    defaults = {"save_format": "dcp", "options": options or {}}
    return read_phase_request(write_request(folder, optimizer=wanted, **{**defaults, **changes}))


def test_four_bit_codes_take_a_byte_each_the_high_half_first():
    assert one_byte_a_code(bytes([0x01, 0xF2, 0x9A])) == bytes([0, 1, 15, 2, 9, 10])
    packed = bytes(range(256))
    codes = one_byte_a_code(packed)
    again = bytes(high << 4 | low for high, low in zip(codes[::2], codes[1::2], strict=True))
    assert again == packed


@pytest.mark.parametrize("name", ["adamw8bit", "adamw4bit", "adamwfp8", "adamw"])
@pytest.mark.parametrize("save_format", ["dcp", "dcp_flattened", "dcp_cpu_offload", "full"])
def test_sharded_ways_of_saving_may_change_the_mesh(tmp_path, name, save_format):
    asked = request(tmp_path, {"name": name}, save_format=save_format, mesh="dp2", save_mesh="dp1")
    assert why_not(asked) is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"optimizer": {"name": "sgd"}}, "no optimizer sgd"),
        ({"optimizer": {"min_quantised_elements": 1}}, "from 4096 elements on"),
        ({"master_dtype": "fp32"}, "no master weights"),
        ({"options": {"wrap": "ddp"}}, "no wrap ddp"),
        ({"options": {"wrap": "none"}, "mesh": "dp2"}, "for one rank"),
        ({"save_format": "native"}, "no way of saving native"),
        ({"save_format": "torch_save", "save_mesh": "dp2"}, "on the mesh that saved them"),
        ({"save_format": "state_dict", "save_mesh": "dp2"}, "on the mesh that saved them"),
        ({"optimizer": {"stochastic_rounding": True}, "save_mesh": "dp2"}, "generators belong"),
    ],
)
def test_what_no_version_can_run_says_why(tmp_path, changes, words):
    assert words in (why_not(request(tmp_path, **changes)) or "it can be run")


@pytest.mark.parametrize(
    ("profile", "after_save", "expected"),
    [
        ("torchao_eager", "", [False] * 5),
        ("canonical", "", [False] * 5),
        ("torchao_compiled", "", [True] * 5),
        ("torchao_eager", "torchao_compiled", [False, False, False, True, True]),
        ("torchao_compiled", "torchao_eager", [True, True, True, False, False]),
    ],
)
def test_the_profile_changes_right_after_the_save(tmp_path, profile, after_save, expected):
    optimizer = {"profile": profile, "profile_after_save": after_save}
    settings = request(tmp_path, optimizer, save_after=3, train_until=5).settings
    assert [is_compiled(settings, step) for step in range(1, 6)] == expected


def test_a_step_is_told_from_one_that_is_not_what_was_asked_for():
    assert not_as_asked(compiled=True, before=0, after=3) is None
    assert not_as_asked(compiled=True, before=3, after=3) is None  # compiled by a step before
    assert not_as_asked(compiled=False, before=3, after=3) is None
    assert "no graph was" in (not_as_asked(compiled=True, before=0, after=0) or "")
    assert "2 graphs" in (not_as_asked(compiled=False, before=1, after=3) or "")
