"""Sections of levels: which is chosen, round trips, damage."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from cpgt.wire.arrays import Floats
from cpgt.wire.errors import ProtocolError
from cpgt.wire.levels import GAPS, SIGNS, SPARSE, SYMBOLS, decode_levels, encode_levels
from tests.wire.examples import STYLES, levels
from tests.wire.fuzz import damaged


def strewn(number: int, nonzero: int, top: int, seed: int = 1) -> Floats:
    """This many levels, at random places."""
    rng = np.random.default_rng(seed)
    found = np.zeros(number)
    signs, sizes = rng.choice([-1, 1], nonzero), rng.integers(1, top + 1, nonzero)
    found[rng.permutation(number)[:nonzero]] = signs * sizes
    return found


def in_a_run(number: int, nonzero: int, top: int) -> Floats:
    return np.sort(np.abs(strewn(number, nonzero, top)))


# one of each, with the section that is smallest
SECTIONS = {
    "nothing": (np.zeros(100), 0),
    "few bits": (np.resize([-1.0, 0.0, 1.0], 60), 2),
    "many levels": (strewn(5000, 5000, 20), SYMBOLS),
    "just dense": (strewn(16_000, 1000, 2), SYMBOLS),
    "just sparse": (strewn(16_000, 999, 2), SPARSE),
    "few of a short vector": (strewn(8191, 64, 2), SPARSE),
    "more of a short vector": (strewn(8191, 65, 2), SYMBOLS),
    "more of a long vector": (strewn(8192, 65, 2), SPARSE),
    "few signs": (strewn(5000, 200, 1), SIGNS),
    "256 signs": (strewn(9000, 256, 1), SIGNS),
    "257 signs": (strewn(9000, 257, 1), SPARSE),
    "a run": (in_a_run(9000, 300, 3), SPARSE + GAPS),
    "a run of both signs": (
        in_a_run(9000, 200, 1) * np.resize([1.0, -1.0, -1.0], 9000),
        SIGNS + GAPS,
    ),
}


@pytest.mark.parametrize(("found", "method"), SECTIONS.values(), ids=SECTIONS)
def test_the_section_that_is_chosen(found: Floats, method: int) -> None:
    section = encode_levels(found)
    assert section[0] == method
    assert np.array_equal(restored(section, len(found), 2000), found)


# 80 levels in a row at the end of 9,000: where they are is said by gaps
RUNS = {
    "signs": (
        [1.0, -1.0, -1.0],
        "44504a004100ffffffffffffffffffffffffffffffffffffffffffffffffffff"
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
        "ffffffffff32010016aefc5b006db6db6db6db6db6db6d",
    ),
    "levels": (
        [1.0, 2.0, 3.0],
        "43504a004100ffffffffffffffffffffffffffffffffffffffffffffffffffff"
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
        "ffffffffff32010016aefc5b00400103000000043b133b3126bb620d8a21df0e"
        "70e21de7",
    ),
}


@pytest.mark.parametrize(("pattern", "expected"), RUNS.values(), ids=RUNS)
def test_exactly_these_bytes_for_gaps(pattern: list[float], expected: str) -> None:
    levels = np.zeros(9000)
    levels[-80:] = np.resize(pattern, 80)
    assert encode_levels(levels).hex() == expected
    assert np.array_equal(restored(bytes.fromhex(expected), 9000, 3), levels)


def restored(section: bytes, number: int, top: int) -> Floats:
    positions, there = decode_levels(section, number, top)
    out = np.zeros(number)
    out[slice(None) if positions is None else positions] = there
    return out


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("number", [1, 2, 64, 65, 999, 5000])
def test_what_goes_in_comes_out(style: str, number: int) -> None:
    rng = np.random.default_rng(number)
    for top in (1, 2, 15, 16, 17, 128, 2200, 32768):
        found = levels(rng, style, top, (1, number))[0]
        assert np.array_equal(restored(encode_levels(found), number, top), found)


def test_a_few_levels_of_many_bits_cost_their_bits_and_no_model() -> None:
    section = encode_levels(strewn(1000, 10, 128))
    assert len(section) <= 4 + 11 + 1 + 12  # head; positions of 8.5 bits; a byte and 9 bits each


def test_signs_that_are_all_the_same_cost_nothing() -> None:
    assert (
        len(encode_levels(np.abs(strewn(5000, 200, 1))))
        < len(encode_levels(strewn(5000, 200, 1))) - 15
    )


@pytest.mark.parametrize("name", SECTIONS)
def test_damaged_sections_are_decoded_or_refused(name: str) -> None:
    found, _ = SECTIONS[name]
    rng = np.random.default_rng(9)
    outcomes = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for bad in damaged(rng, encode_levels(found), 700):
            try:
                values = restored(bad, len(found), 50)
            except ProtocolError:
                outcomes.append(False)
                continue
            outcomes.append(True)
            assert np.abs(values).max() <= 50
    assert not all(outcomes)
    assert any(outcomes)


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("", "too early"),
        ("20", "unknown form 32"),
        ("45", "unknown form 69"),
        ("02", "0 B for 10 levels of 2 bits"),
        ("00" + "00", "1 B for 10 levels of 0 bits"),
        ("42" + "0b" + "00", "11 positions out of 10"),
        ("42" + "01" + "01" + "10" + "", "0 B for 1 signs"),
        ("41" + "01" + "01" + "10" + "41", "unknown form 65"),  # no sparse section within
        ("43" + "0b" + "04" + "00010000", "11 levels out of 10"),
        ("43" + "02" + "04" + "08010000" + "0200", "no room"),
        ("43" + "02" + "04" + "ff010000" + "0200", "no room"),
        ("02" + "c00000", "beyond 1"),
    ],
)
def test_what_is_refused(section: str, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        decode_levels(bytes.fromhex(section), 10, 1)
