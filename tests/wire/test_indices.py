"""Sets of positions: exact bytes, every set of a small universe, sizes, refusals."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.sizes import subset_bits
from cpgt.wire.errors import ProtocolError
from cpgt.wire.indices import decode_indices, encode_indices, rice_bits

GOLDEN = [
    ([], 5, ""),
    ([0], 1, ""),  # all of them
    ([0, 1, 2, 3, 4], 5, ""),
    ([1], 2, "40"),  # a bit each
    ([5], 100, "16"),  # l = 6: 000101, then 1
    ([1, 2, 50, 99], 100, "10f0c880"),  # l = 4: 0001 0000 1111 0000, then 1, 1, 001, 0001
    ([0, 1, 2, 3], 10, "f000"),  # 40 % of them: a bit each
    ([0, 1, 2, 3, 4, 5, 6, 7, 8], 10, "28"),  # the missing 9: l = 3: 001, then 01
    ([0, 1000, 70000], 100_000, "00003e7361f080"),
]


@pytest.mark.parametrize(("positions", "universe", "expected"), GOLDEN)
def test_exactly_these_bytes(positions: list[int], universe: int, expected: str) -> None:
    data = encode_indices(np.array(positions, np.int64), universe)
    assert data.hex() == expected
    assert decode_indices(data, len(positions), universe).tolist() == positions


@pytest.mark.parametrize("universe", range(1, 11))
def test_every_set_of_a_small_universe(universe: int) -> None:
    for number in range(universe + 1):
        found = set()
        for positions in combinations(range(universe), number):
            data = encode_indices(np.array(positions, np.int64), universe)
            assert tuple(decode_indices(data, number, universe)) == positions
            found.add(data)
        assert len(found) == len(list(combinations(range(universe), number)))


@settings(deadline=None, max_examples=300)
@given(
    st.integers(1, 20_000),
    st.floats(0, 1),
    st.integers(0, 2**32 - 1),
    st.sampled_from(["any", "run", "even"]),
)
def test_what_goes_in_comes_out(universe: int, part: float, seed: int, kind: str) -> None:
    number = round(part * universe)
    rng = np.random.default_rng(seed)
    positions = np.sort(rng.permutation(universe)[:number])
    if kind == "run":
        positions = np.arange(number) + rng.integers(universe - number + 1)
    if kind == "even":
        positions = np.arange(number) * (universe // max(number, 1))
    data = encode_indices(positions, universe)
    assert np.array_equal(decode_indices(data, number, universe), positions)
    few = min(number, universe - number)
    assert 8 * len(data) <= subset_bits(universe, number) + 1.5 * few + 24  # wherever they lie


# found: at most 0.14 bit a position (2.5 %) up to 25 %; 4.1 % just below 38.2 %, 3.1 % at 40 %
@pytest.mark.parametrize(
    "part", [0.001, 0.003, 0.01, 0.03, 0.06, 0.1, 0.2, 0.25, 0.3, 0.38, 0.4, 0.5, 0.7, 0.99]
)
def test_sets_that_lie_anywhere_are_near_their_number_of_bits(part: float) -> None:
    universe, rng = 100_000, np.random.default_rng(1)
    number = round(part * universe)
    data = encode_indices(np.sort(rng.permutation(universe)[:number]), universe)
    assert 8 * len(data) <= 1.045 * subset_bits(universe, number) + 8


def test_top_1_percent_is_within_1_percent() -> None:
    for seed in range(20):
        positions = np.sort(np.random.default_rng(seed).permutation(100_000)[:1000])
        assert 8 * len(encode_indices(positions, 100_000)) <= 1.01 * subset_bits(100_000, 1000) + 8


@pytest.mark.parametrize("universe", [1, 2, 7, 100, 12345])
def test_l_is_the_smallest_that_its_rule_allows(universe: int) -> None:
    for number in range(1, min(universe, 200) + 1):
        low = rice_bits(number, universe)
        assert 1000 * number * 2**low >= 481 * universe
        assert low == 0 or 1000 * number * 2 ** (low - 1) < 481 * universe


@pytest.mark.parametrize(
    ("data", "number", "universe"),
    [
        ("", 1, 5),
        ("", 6, 5),
        ("", 2**35, 5),
        ("00", 0, 5),
        ("00", 5, 5),
        ("00", 1, 5),
        ("50", 1, 5),  # position 5
        ("30", 1, 5),  # two of them
        ("2000", 1, 5),  # a byte too long
        ("ffffffff", 4, 100),
        ("08", 2, 4),  # bits: one beyond the universe
        ("e0", 2, 4),  # bits: three of them
        ("80", 2, 4),  # bits: one of them
    ],
)
def test_what_is_no_set_is_refused(data: str, number: int, universe: int) -> None:
    with pytest.raises(ProtocolError, match="positions"):
        decode_indices(bytes.fromhex(data), number, universe)


def test_random_bytes_are_a_set_or_refused() -> None:
    rng = np.random.default_rng(2)
    read = 0
    for _ in range(5000):
        universe = int(rng.integers(1, 200))
        number = int(rng.integers(0, universe + 2))
        try:
            positions = decode_indices(rng.bytes(int(rng.integers(0, 12))), number, universe)
        except ProtocolError:
            continue
        read += 1
        assert len(positions) == number
        assert (np.diff(positions) > 0).all()
        assert number == 0 or (positions[0] >= 0 and positions[-1] < universe)
    assert read
