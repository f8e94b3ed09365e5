"""Philox4x32-10 and the 12-bit grid values drawn from it, equal bit for bit to kernels/philox.h.

A value depends on what it is for, never on which rank draws it: whoever seeds a framework's own
generator instead gets other numbers on every mesh, and a comparison across meshes then says
nothing. numpy is used where the environment has it; without it the same numbers come slowly.
"""

from __future__ import annotations

import array
import enum
import importlib.util
from collections.abc import Sequence

MASK = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
VALUES_AT_ONCE = 1 << 15  # keeps the working arrays inside a core's cache
LARGEST_OFFSET = 2048  # grid values are (0..4095) - 2048

HAVE_NUMPY = importlib.util.find_spec("numpy") is not None


class Stream(enum.IntEnum):
    """What a value is for; the low byte of the counter's first word."""

    INIT = 1
    DATA = 2
    TARGETS = 3
    GRADIENTS = 4
    STOCHASTIC_ROUNDING = 5
    DROPOUT = 6
    AMAXES = 7


def philox4x32_10(counter: Sequence[int], key: Sequence[int]) -> tuple[int, int, int, int]:
    """Ten rounds on four 32-bit words (Salmon et al., "Parallel random numbers", 2011)."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        first, second = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            (second >> 32) ^ c1 ^ k0,
            second & MASK,
            (first >> 32) ^ c3 ^ k1,
            first & MASK,
        )
        k0, k1 = (k0 + KEY_STEPS[0]) & MASK, (k1 + KEY_STEPS[1]) & MASK
    return c0, c1, c2, c3


def words(seed: int, stream: Stream, ordinal: int, step: int, first: int, count: int):
    """Word 0 for the elements [first, first + count) of a flattened global tensor.

    Returns uint32 values: a numpy array, or an array.array of type "I" without numpy.
    """
    key = (seed & MASK, seed >> 32 & MASK)
    lane = (int(stream) + 256 * ordinal) & MASK
    if HAVE_NUMPY:
        return _words_numpy(key, lane, step, first, count)
    indices = range(first, first + count)
    return array.array(
        "I", (philox4x32_10((lane, step, i & MASK, i >> 32), key)[0] for i in indices)
    )


def grid_values(
    seed: int, stream: Stream, ordinal: int, step: int, first: int, count: int, exponent: int
):
    """((u >> 20) - 2048) * 2**exponent as fp32, for elements [first, first + count).

    ordinal: the parameter's place in bytewise FQN order. step: 0 for initial values, else
    1-based. Sums of up to 2**12 such values are exact in fp32 whatever their order. Returns a
    numpy float32 array, or an array.array of type "f" without numpy.
    """
    drawn = words(seed, stream, ordinal, step, first, count)
    scale = 2.0**exponent
    if HAVE_NUMPY:
        import numpy

        grid = (drawn >> numpy.uint32(20)).astype(numpy.float32) - numpy.float32(LARGEST_OFFSET)
        return grid * numpy.float32(scale)
    return array.array("f", (((u >> 20) - LARGEST_OFFSET) * scale for u in drawn))


def amax(seed: int, module: int, step: int, backward: bool, column: int) -> float:
    """((u >> 20) + 1) * 2**-8: the largest magnitude that a column of an FP8 module's state is
    told at a step, instead of one that depends on how products are added. module: the layer."""
    index = 64 * backward + column
    return ((int(words(seed, Stream.AMAXES, module, step, index, 1)[0]) >> 20) + 1) * 2.0**-8


def filled(value: float, count: int):
    """The same fp32 value `count` times, in the container of grid_values."""
    if HAVE_NUMPY:
        import numpy

        return numpy.full(count, value, dtype=numpy.float32)
    return array.array("f", [value]) * count


def _words_numpy(key: tuple[int, int], lane: int, step: int, first: int, count: int):
    import numpy

    out = numpy.empty(count, dtype=numpy.uint32)
    for start in range(0, count, VALUES_AT_ONCE):
        size = min(VALUES_AT_ONCE, count - start)
        index = numpy.arange(first + start, first + start + size, dtype=numpy.uint64)
        out[start : start + size] = _rounds_numpy(key, lane, step, index)
    return out


def _rounds_numpy(key: tuple[int, int], lane: int, step: int, index):
    """The rounds of philox4x32_10 over one array of 64-bit indices; word 0 of each."""
    import numpy

    word = numpy.uint64
    mask, half = word(MASK), word(32)
    c0, c1 = numpy.full_like(index, lane), numpy.full_like(index, step)
    c2, c3 = index & mask, index >> half
    k0, k1 = key
    for _ in range(ROUNDS):
        first, second = c0 * word(MULTIPLIERS[0]), c2 * word(MULTIPLIERS[1])
        c0, c1 = (second >> half) ^ c1 ^ word(k0), second & mask
        c2, c3 = (first >> half) ^ c3 ^ word(k1), first & mask
        k0, k1 = (k0 + KEY_STEPS[0]) & MASK, (k1 + KEY_STEPS[1]) & MASK
    return c0.astype(numpy.uint32)
