"""Integers through the range coder: exact bytes, round trips, sizes, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.sizes import KINDS, entropy_bytes, quantized_sizes
from cpgt.agent.compressors.quantizers import Quantizer
from cpgt.wire.arrays import Floats
from cpgt.wire.errors import ProtocolError
from cpgt.wire.payloads import encode
from cpgt.wire.symbols import decode_symbols, encode_symbols

GOLDEN = {
    "one token, no words": ([5, 5, 5], "05" + "01" + "00" + "00"),
    "two tokens": ([0, 1] * 8, "00" + "02" + "0000" + "01" + "00005555"),
    "three tokens": ([3, 4, 3, 3, 4, 5], "03" + "03" + "00050d" + "01" + "955e5b4a"),
    # tokens 32 (32 .. 39) and 34 (48 .. 55), and three bits for each number
    "with extra bits": ([34, 50, 50, 52], "20" + "03" + "0dff00" + "01" + "0758af23" + "4940"),
    # 14 signs, then magnitudes 1 .. 37, the last standing for 80 .. 95
    "signs apart": (
        [80, -60, 40, -10, 9, -8, 7, -6, 5, -4, 3, -2, 1, -1],
        "80"
        + "5554"
        + "0125"
        + "00080808080808080808ffffffffffffffffffffffffffffffffffffffffffff08ff08ff08"
        + "02b8367cfe621c50c88000",
    ),
}


@pytest.mark.parametrize(("numbers", "expected"), GOLDEN.values(), ids=GOLDEN)
def test_exactly_these_bytes(numbers: list[int], expected: str) -> None:
    assert encode_symbols(np.array(numbers, np.float64)).hex() == expected
    assert decode_symbols(bytes.fromhex(expected), len(numbers)).tolist() == numbers


def returns(numbers: Floats) -> bool:
    return np.array_equal(decode_symbols(encode_symbols(numbers), len(numbers)), numbers)


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.integers(-(2**28) + 1, 2**28 - 1) | st.integers(-80, 80), min_size=1, max_size=300)
)
def test_any_numbers_come_back(numbers: list[int]) -> None:
    assert returns(np.array(numbers, np.float64))


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from([100, 4096, 4097, 32_768, 32_769, 70_000]),
    st.floats(0.01, 3000),
    st.sampled_from(["both", "one", "no zero"]),
    st.integers(0, 2**32 - 1),
)
def test_many_numbers_come_back(number: int, width: float, signs: str, seed: int) -> None:
    """On both sides of where signs go apart, and of where frequencies are taken from a sample."""
    numbers = np.round(width * np.random.default_rng(seed).standard_t(2, number))
    if signs == "one":
        numbers = np.abs(numbers)
    if signs == "no zero":
        numbers = np.where(numbers == 0, 1.0, numbers)
    assert returns(numbers)


def test_a_token_that_no_sample_shows() -> None:
    numbers = np.zeros(100_000)
    for place in (0, 5, 77_777, 99_999):
        numbers[place] = 9
        assert returns(numbers)


# --- sizes at d = 100,000 -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_within_2_percent_and_16_bytes_of_the_entropy(kind: str, bits: int) -> None:
    """Per channel, scale and all; the second channel is another vector of the kind.

    Student's t with 1.5 degrees of freedom is the limit: for other seeds, b = 4 takes up to 4 B
    more.
    """
    least, sent = quantized_sizes(kind, 100_000, bits)
    assert sent <= 1.02 * least + 16


@pytest.mark.parametrize("bits", range(1, 17))
@pytest.mark.parametrize("kind", ["Gaussian", "Laplace", "positive", "Student t, 3"])
def test_any_number_of_bits(kind: str, bits: int) -> None:
    least, sent = quantized_sizes(kind, 100_000, bits, seed=2)
    assert sent <= 1.02 * least + 16


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_channels_that_are_not_alike_have_models_of_their_own(bits: int) -> None:
    rng = np.random.default_rng(3)
    v = np.stack([rng.standard_normal(100_000), np.abs(rng.standard_t(1.5, 100_000))])
    message = Quantizer(bits).compress(v, rng.random(v.shape))
    assert len(encode(message)) <= sum(1.02 * entropy_bytes(row) + 16 for row in message.levels)


def test_two_bits_take_a_fortieth_of_two_bits() -> None:
    least, sent = quantized_sizes("Laplace", 100_000, 2)
    assert 500 < least < sent < 25_000 / 40


@pytest.mark.parametrize("period", [2, 3, 6, 7, 64])
def test_a_rhythm_does_not_mislead_the_sample(period: int) -> None:
    rng = np.random.default_rng(period)
    numbers = np.round(
        rng.standard_normal(100_000) * np.where(np.arange(100_000) % period, 1.0, 12.0)
    )
    assert len(encode_symbols(numbers)) <= 1.02 * entropy_bytes(numbers) + 64


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "number", "problem"),
    [
        ("", 3, "too early"),
        ("00", 3, "too early"),
        ("0003", 3, "too early"),
        ("0000" + "00", 3, "model"),  # no token
        ("0001" + "05" + "00", 3, "model"),  # none is the most frequent
        ("7f02" + "0000" + "00", 3, "model"),  # token 128
        ("8000" + "00", 3, "too early"),  # signs apart
        ("80e0" + "80" + "0100" + "00", 3, "model"),  # signs apart, twice
        ("0001" + "00" + "ffffffff7f" + "00", 3, "too early"),  # words that are not there
        ("0501" + "00" + "00" + "00", 3, "more bits"),
        ("2001" + "00" + "00", 3, "other bits"),  # token 32 has three more bits
        ("2001" + "00" + "00" + "ffffff", 3, "other bits"),
    ],
)
def test_what_is_refused(data: str, number: int, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        decode_symbols(bytes.fromhex(data), number)
