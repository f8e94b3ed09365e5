"""Philox: the published known answers, the numbers of kernels/philox.cpp, and that a value depends
on nothing but what it is for."""

import array
import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.adapters.python import philox

ALL_ONES = 0xFFFFFFFF
# Random123's kat_vectors, "philox4x32 10": counter, key, answer.
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (ALL_ONES,) * 4,
        (ALL_ONES,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]

ROOT = Path(__file__).resolve().parents[3]
PRINT_GRID_VALUES = """
#include "kernels/philox.h"
#include <cstdio>
#include <cstring>
int main() {
  unsigned long long seed, index;
  unsigned stream, ordinal, step, bits;
  int exponent;
  while (std::scanf("%llu %u %u %u %llu %d", &seed, &stream, &ordinal, &step, &index,
                    &exponent) == 6) {
    const float value = resumecheck::kernels::grid_value(
        seed, static_cast<resumecheck::kernels::Stream>(stream), ordinal, step, index, exponent);
    std::memcpy(&bits, &value, sizeof bits);
    std::printf("%08x\\n", bits);
  }
}
"""

u32 = st.integers(0, ALL_ONES)
draws = {
    "seed": st.integers(0, 2**64 - 1),
    "stream": st.sampled_from(list(philox.Stream)),
    "ordinal": st.integers(0, 2**24 - 1),
    "step": u32,
    "first": st.integers(0, 2**40),
}


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN_ANSWERS)
def test_published_known_answers(counter, key, answer):
    assert philox.philox4x32_10(counter, key) == answer


def test_the_kernels_draw_the_same_bits(tmp_path):
    random_draws = random.Random(1)
    draws = [
        (
            random_draws.getrandbits(64),
            random_draws.choice(list(philox.Stream)),
            random_draws.getrandbits(16),
            random_draws.getrandbits(32),
            random_draws.getrandbits(40),
            random_draws.choice([-14, -12, -11]),
        )
        for _ in range(500)
    ]
    source, program = tmp_path / "main.cpp", tmp_path / "main"
    source.write_text(PRINT_GRID_VALUES)
    philox_cpp = ROOT / "kernels" / "philox.cpp"
    subprocess.run(
        ["g++", "-std=c++20", f"-I{ROOT}", source, philox_cpp, "-o", program], check=True
    )
    lines = "\n".join(" ".join(str(int(word)) for word in draw) for draw in draws)
    printed = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    ours = [
        philox.grid_values(seed, stream, ordinal, step, index, 1, exponent)
        for seed, stream, ordinal, step, index, exponent in draws
    ]
    assert printed.stdout.split() == [value.tobytes()[::-1].hex() for value in ours]


@given(count=st.integers(0, 40), **draws)
def test_every_word_is_word_0_of_its_own_counter(seed, stream, ordinal, step, first, count):
    drawn = philox.words(seed, stream, ordinal, step, first, count)
    assert [int(word) for word in drawn] == [
        philox.philox4x32_10(
            ((stream + 256 * ordinal) & ALL_ONES, step, i & ALL_ONES, i >> 32),
            (seed & ALL_ONES, seed >> 32),
        )[0]
        for i in range(first, first + count)
    ]


@given(count=st.integers(0, 40), cut=st.integers(0, 40), **draws)
def test_a_shard_draws_what_the_whole_draws_there(seed, stream, ordinal, step, first, count, cut):
    cut = min(cut, count)
    whole = philox.grid_values(seed, stream, ordinal, step, first, count, -12)
    parts = [
        *philox.grid_values(seed, stream, ordinal, step, first, cut, -12),
        *philox.grid_values(seed, stream, ordinal, step, first + cut, count - cut, -12),
    ]
    assert list(whole) == parts


@settings(max_examples=30)
@given(count=st.integers(0, 40), exponent=st.sampled_from([-14, -12, -11]), **draws)
def test_numpy_and_plain_python_draw_the_same_bits(
    seed, stream, ordinal, step, first, count, exponent
):
    arguments = (seed, stream, ordinal, step, first, count, exponent)
    fast = philox.grid_values(*arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(philox, "HAVE_NUMPY", False)
        plain = philox.grid_values(*arguments)
    assert isinstance(plain, array.array), "without numpy the values must not need numpy"
    assert fast.tobytes() == plain.tobytes()


def test_working_arrays_end_nowhere_in_the_values(monkeypatch):
    at_once = philox.words(7, philox.Stream.INIT, 0, 0, 5, 100)
    monkeypatch.setattr(philox, "VALUES_AT_ONCE", 8)
    assert list(philox.words(7, philox.Stream.INIT, 0, 0, 5, 100)) == list(at_once)


def test_grid_values_are_a_12_bit_grid():
    values = philox.grid_values(1, philox.Stream.GRADIENTS, 3, 2, 0, 20_000, -12)
    steps = values * 2**12
    assert (steps == steps.round()).all()
    assert steps.min() >= -2048 and steps.max() <= 2047
    assert steps.min() < -2000 and steps.max() > 2000, "the upper bits of the word are not used"


def test_streams_parameters_and_steps_draw_different_values():
    draws = {
        tuple(philox.words(1, stream, ordinal, step, 0, 4))
        for stream in philox.Stream
        for ordinal in range(3)
        for step in range(3)
    }
    assert len(draws) == len(philox.Stream) * 9


@pytest.mark.parametrize(("seed", "module", "step"), [(1, 0, 1), (2**64 - 1, 7, 9), (5, 3, 2**31)])
def test_an_amax_is_never_zero_and_has_a_place_of_its_own(seed, module, step):
    for backward, column in ((False, 0), (False, 4), (True, 0), (True, 2)):
        index = column + (64 if backward else 0)
        drawn = philox.grid_values(seed, philox.Stream.AMAXES, module, step, index, 1, -8)
        amax = philox.amax(seed, module, step, backward, column)
        assert amax == float(drawn[0]) + 2049 / 256
        assert 2**-8 <= amax <= 16


def test_filled_is_what_grid_values_would_be(monkeypatch):
    assert philox.filled(1.0, 3).tobytes() == b"\x00\x00\x80\x3f" * 3
    monkeypatch.setattr(philox, "HAVE_NUMPY", False)
    assert philox.filled(1.0, 3) == array.array("f", [1, 1, 1])
