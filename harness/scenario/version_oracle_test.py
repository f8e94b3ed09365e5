"""The PyPI package packaging, which pip itself orders versions by, is the oracle of our order.

Versions are put together from the grammar's pieces, in every spelling that PEP 440 normalises, and
from random characters of the same alphabet, most of which both must refuse.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("RESUMECHECK_BUILD", ROOT / "build")) / "version_order"

NUMBER = st.one_of(st.integers(0, 12), st.integers(0, 10**25)).map(str)
PADDED = st.tuples(st.sampled_from(["", "0", "00"]), NUMBER).map("".join)
SEPARATOR = st.sampled_from(["", ".", "-", "_"])


def tagged(words: list[str]) -> st.SearchStrategy[str]:
    number = st.one_of(st.just(""), PADDED)
    return st.tuples(SEPARATOR, st.sampled_from(words), SEPARATOR, number).map("".join)


PIECES = (
    st.sampled_from(["", "v", "V", " "]),
    st.one_of(st.just(""), NUMBER.map(lambda epoch: epoch + "!")),
    st.lists(PADDED, min_size=1, max_size=4).map(".".join),
    st.one_of(st.just(""), tagged(["a", "b", "c", "rc", "alpha", "BETA", "pre", "preview"])),
    st.one_of(st.just(""), tagged(["post", "rev", "r"]), NUMBER.map(lambda n: "-" + n)),
    st.one_of(st.just(""), tagged(["dev", "DEV"])),
    st.one_of(
        st.just(""), st.from_regex(r"\+[a-z0-9]{1,4}([-_.][a-z0-9]{1,4}){0,2}", fullmatch=True)
    ),
    st.sampled_from(["", "", " "]),
)
WELL_FORMED = st.tuples(*PIECES).map("".join)
ALPHABET = "0123456789.-_+!abcrcvdevpost "
ANYTHING = st.text(ALPHABET, max_size=12)


def ours(pairs: list[tuple[str, str]]) -> list[str]:
    if not PROGRAM.exists():
        pytest.fail(f"{PROGRAM} is missing: build the project, or set RESUMECHECK_BUILD")
    lines = "".join(f"{left}\t{right}\n" for left, right in pairs)
    answer = subprocess.run([PROGRAM], input=lines, capture_output=True, text=True, check=True)
    return answer.stdout.splitlines()


def theirs(left: str, right: str) -> str:
    try:
        one, two = Version(left), Version(right)
    except InvalidVersion:
        return "refused"
    return str((one > two) - (one < two))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(WELL_FORMED, ANYTHING), min_size=8, max_size=24))
def test_every_pair_is_ordered_as_packaging_orders_it(versions: list[str]) -> None:
    pairs = [(left, right) for left in versions for right in versions]
    for pair, answer in zip(pairs, ours(pairs), strict=True):
        assert answer == theirs(*pair), f"{pair[0]!r} against {pair[1]!r}"
