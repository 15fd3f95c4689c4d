"""The byte layout of payloads: exact bytes worked out by hand from the table, round trips, total decoding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wire.errors import ProtocolError, WireError
from wire.payloads import LARGEST, MAX_BITS, decode, encode
from wire.vectors import Dense, Floats, Quantized, Sparse, Vectors

TINIEST = 5e-324
EXTREMES = np.array([0.0, -0.0, TINIEST, -TINIEST, 2.2e-308, LARGEST, -LARGEST, 1.0, -1.0])

# As they stand in a payload.
ONE, MINUS_ONE, MINUS_TWO = "000000000000f03f", "000000000000f0bf", "00000000000000c0"
TWO, HALF, ZERO, MINUS_ZERO = "0000000000000040", "000000000000e03f", "0000000000000000", "0000000000000080"
SMALLEST, HUGEST = "0100000000000000", "ffffffffffffef7f"
NAN, INFINITE = "000000000000f87f", "000000000000f07f"


def dense(*rows: list[float]) -> Dense:
    return Dense(np.array(rows, dtype=np.float64))


def sparse(dimension: int, indices: list[list[int]], values: list[list[float]]) -> Sparse:
    return Sparse(dimension, np.array(indices, dtype=np.int64), np.array(values, dtype=np.float64))


def quantized(bits: int, scale: list[float], *levels: list[int]) -> Quantized:
    return Quantized(bits, np.array(scale, dtype=np.float64)[:, None], np.array(levels, dtype=np.float64))


GOLDEN: dict[str, tuple[Vectors, str]] = {
    "dense, two rows": (dense([1.0, -2.0], [0.5, 0.0]), "00" + ONE + MINUS_TWO + HALF + ZERO),
    "dense, one number": (dense([-0.0]), "00" + MINUS_ZERO),
    "dense, extremes": (dense([TINIEST, LARGEST]), "00" + SMALLEST + HUGEST),
    # d = 256 is the last dimension whose indices fit in one byte
    "sparse, u8": (sparse(256, [[3, 255]], [[1.0, -1.0]]), "01" + "03ff" + ONE + MINUS_ONE),
    "sparse, u16": (sparse(257, [[256]], [[1.0]]), "01" + "0001" + ONE),
    "sparse, last u16": (sparse(65536, [[65535]], [[1.0]]), "01" + "ffff" + ONE),
    "sparse, u32": (sparse(65537, [[65536]], [[1.0]]), "01" + "00000100" + ONE),
    "sparse, two rows": (
        sparse(4, [[0, 3], [1, 2]], [[1.0, 2.0], [-2.0, 0.5]]),
        "01" + "00030102" + ONE + TWO + MINUS_TWO + HALF,
    ),
    # digits 2 1 0 1 2 in base 3: 162 + 27 + 0 + 3 + 2 = 194
    "b = 1, full byte": (quantized(1, [1.0], [1, 0, -1, 0, 1]), "11" + ONE + "c2"),
    # then 0 and four padding digits 1: 27 + 9 + 3 + 1 = 40
    "b = 1, padding": (quantized(1, [1.0], [1, 0, -1, 0, 1, -1]), "11" + ONE + "c228"),
    # rows follow each other without a gap: 2 2 2 0 0 = 162 + 54 + 18 = 234, then 0 and padding
    "b = 1, two rows": (quantized(1, [1.0, 2.0], [1, 1, 1], [-1, -1, -1]), "11" + ONE + TWO + "ea28"),
    # digits 4 0 3 in base 5: 103; then 1 2 2: 25 + 10 + 2 = 37
    "b = 2": (quantized(2, [0.5], [2, -2, 1, -1]), "12" + HALF + "6725"),
    # digits 8 1 in base 9: 73; then 4 4: 40
    "b = 3": (quantized(3, [2.0], [4, -3, 0]), "13" + TWO + "4928"),
    # 10000 00000 01000, one bit of padding
    "b = 4": (quantized(4, [1.0], [8, -8, 0]), "14" + ONE + "8010"),
    # 01001 00111, six bits of padding
    "b = 4, two rows": (quantized(4, [1.0, 0.0], [1], [-1]), "14" + ONE + ZERO + "49c0"),
    # 65536, 0 and 32768 in 17 bits each: bits 0 and 35 are set
    "b = 16": (quantized(16, [TINIEST], [32768, -32768, 0]), "20" + SMALLEST + "80000000100000"),
}


def parts(vectors: Vectors) -> list[Any]:
    """What the vectors consist of, arrays as (shape, bytes) so that -0.0 differs from 0.0."""
    return [
        (field.shape, field.astype(np.float64).tobytes()) if isinstance(field, np.ndarray) else field
        for field in (type(vectors).__name__, *vectors)
    ]


def stacked(several: list[Vectors]) -> list[Any]:
    """What decode should give for these."""
    columns = zip(*map(parts, several), strict=True)
    return [
        ((len(several), *column[0][0]), b"".join(data for _, data in column))
        if isinstance(column[0], tuple)
        else column[0]
        for column in columns
    ]


@pytest.mark.parametrize(("vectors", "expected"), GOLDEN.values(), ids=GOLDEN.keys())
def test_encodes_to_exactly_these_bytes(vectors: Vectors, expected: str) -> None:
    assert encode(vectors).hex() == expected


@pytest.mark.parametrize(("vectors", "payload"), GOLDEN.values(), ids=GOLDEN.keys())
def test_decodes_from_exactly_these_bytes(vectors: Vectors, payload: str) -> None:
    channels, dimension = vectors.dense().shape
    assert parts(decode([bytes.fromhex(payload)], channels, dimension)) == stacked([vectors])


# --- round trips ----------------------------------------------------------------------------------


def any_floats(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Finite numbers of every magnitude: random bits, with the extremes strewn in."""
    values = rng.integers(0, 2**64, shape, dtype=np.uint64).view(np.float64)
    values = np.where(np.isfinite(values), values, 0.0)
    strewn: Floats = np.where(rng.random(shape) < 0.2, rng.choice(EXTREMES, shape), values)
    return strewn


def random_vectors(rng: np.random.Generator, form: str, channels: int, dimension: int, k: int) -> Vectors:
    """`form` is dense, sparse (with k coordinates) or the number of bits."""
    if form == "dense":
        return Dense(any_floats(rng, (channels, dimension)))
    if form == "sparse":
        indices = np.sort([rng.choice(dimension, k, replace=False) for _ in range(channels)], axis=-1)
        return Sparse(dimension, indices, any_floats(rng, (channels, k)))
    bits = int(form)
    top = 2 ** (bits - 1)
    scale = rng.choice([0.0, TINIEST, 1e-300, 1.0, 1e300], (channels, 1)) * rng.choice([1.0, 0.75])
    return Quantized(bits, scale, rng.integers(-top, top + 1, (channels, dimension)).astype(np.float64))


FORMS = st.sampled_from(["dense", "sparse", *map(str, range(1, MAX_BITS + 1))])
SEEDS = st.integers(0, 2**32 - 1)


@settings(deadline=None, max_examples=400)
@given(FORMS, st.integers(1, 3), st.integers(1, 300), st.integers(1, 4), st.floats(0, 1), SEEDS)
@example("sparse", 2, 256, 2, 1.0, 0)
@example("sparse", 2, 257, 2, 1.0, 0)
@example("1", 1, 1, 1, 0.0, 0)
def test_what_goes_in_comes_out(
    form: str, channels: int, dimension: int, count: int, part: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    k = max(1, round(part * dimension))
    several = [random_vectors(rng, form, channels, dimension, k) for _ in range(count)]
    payloads = [encode(vectors) for vectors in several]
    assert parts(decode(payloads, channels, dimension)) == stacked(several)
    assert {len(payload) for payload in payloads} == {table_size(form, channels, dimension, k)}


def table_size(form: str, channels: int, dimension: int, k: int) -> int:
    """The size column of the table."""
    count = channels * dimension
    if form == "dense":
        return 1 + 8 * count
    if form == "sparse":
        width = 1 if dimension - 1 < 2**8 else 2 if dimension - 1 < 2**16 else 4
        return 1 + (width + 8) * channels * k
    bits = int(form)
    per_byte = {1: 5, 2: 3, 3: 2}.get(bits)
    packed = math.ceil(count / per_byte) if per_byte else math.ceil(count * (bits + 1) / 8)
    return 1 + 8 * channels + packed


@pytest.mark.parametrize(
    "vectors",
    [
        Dense(np.zeros((2, 7))),
        sparse(7, [[0], [6]], [[0.0], [0.0]]),
        quantized(2, [0.0, 0.0], [0] * 7, [0] * 7),
    ],
    ids=["dense", "sparse", "quantized"],
)
def test_zero_comes_out_as_zero(vectors: Vectors) -> None:
    assert not decode([encode(vectors)], 2, 7).dense().any()


@pytest.mark.parametrize("bits", range(1, MAX_BITS + 1))
def test_all_levels_survive(bits: int) -> None:
    top = 2 ** (bits - 1)
    levels = np.arange(-top, top + 1, dtype=np.float64)[None]
    vectors = Quantized(bits, np.ones((1, 1)), levels)
    assert np.array_equal(decode([encode(vectors)], 1, levels.size).dense()[0], levels)


@pytest.mark.parametrize("bits", [1, 3, 4, 16])
def test_the_largest_scale_that_stays_finite(bits: int) -> None:
    top = 2 ** (bits - 1)
    limit = LARGEST / top
    vectors = quantized(bits, [limit], [top, -top])
    assert np.array_equal(decode([encode(vectors)], 1, 2).dense(), [[[LARGEST, -LARGEST]]])


def test_a_level_of_minus_zero_is_zero() -> None:
    vectors = Quantized(2, np.ones((1, 1)), np.array([[-0.0, 0.0]]))
    assert encode(vectors) == encode(quantized(2, [1.0], [0, 0]))


def test_arrays_need_not_be_contiguous_or_little_endian() -> None:
    values = np.array([[1.0, -2.0], [0.5, 0.0]])
    expected = encode(Dense(values))
    assert encode(Dense(np.asfortranarray(values))) == expected
    assert encode(Dense(np.repeat(values, 2, axis=1)[:, ::2])) == expected
    assert encode(Dense(values.astype(">f8"))) == expected


# --- refusals when sending ------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "make",
    [
        lambda bad: dense([1.0, bad], [0.0, 0.0]),
        lambda bad: sparse(5, [[0, 4]], [[bad, 1.0]]),
        lambda bad: quantized(1, [1.0, bad], [0, 1], [1, 0]),
        lambda bad: quantized(5, [bad], [0, 1]),
    ],
    ids=["dense", "sparse", "digits", "bits"],
)
def test_encode_refuses_what_is_not_finite(make: Callable[[float], Vectors], bad: float) -> None:
    with pytest.raises(WireError, match="not finite"):
        encode(make(bad))


@pytest.mark.parametrize(
    "vectors",
    [quantized(2, [LARGEST], [2]), quantized(4, [LARGEST / 4], [8]), quantized(2, [-1.0], [2])],
    ids=["infinite for b = 2", "infinite for b = 4", "negative scale"],
)
def test_encode_refuses_what_decode_would_refuse(vectors: Quantized) -> None:
    """scale * level is not finite, or the scale is negative: no receiver would take it."""
    with pytest.raises(ProtocolError):
        decode([bytes((16 + vectors.bits,)) + vectors.scale.tobytes() + b"\0"], 1, 1)
    with pytest.raises(WireError):
        encode(vectors)


# --- refusals when receiving ----------------------------------------------------------------------

BAD: dict[str, tuple[list[str], int, int, str]] = {
    "nothing": ([""], 1, 1, "without a byte"),
    "form 2": (["02" + ONE], 1, 1, "unknown form 2"),
    "zero bits": (["10" + ONE + "00"], 1, 1, "unknown form 16"),
    "17 bits": (["21" + ONE + "000000"], 1, 1, "unknown form 33"),
    "form 255": (["ff"], 1, 1, "unknown form 255"),
    "dense, a byte short": (["00" + ONE[:-2]], 1, 1, "8 B where 9 B are due"),
    "dense, a byte long": (["00" + ONE + "00"], 1, 1, "10 B where 9 B are due"),
    "dense, NaN": (["00" + ONE + NAN], 1, 2, "not finite"),
    "dense, infinite": (["00" + INFINITE], 1, 1, "not finite"),
    "sparse, no coordinate": (["01"], 1, 5, "fits no number"),
    "sparse, more than d": (["01" + "000102" + ONE * 3], 1, 2, "fits no number"),
    "sparse, between two sizes": (["01" + "00" + ONE + "00"], 1, 2, "11 B where 10 B are due"),
    "sparse, rows do not divide": (["01" + "000102" + ONE * 3], 2, 9, "28 B where 19 B are due"),
    "sparse, index = d": (["01" + "05" + ONE], 1, 5, "do not increase below 5"),
    "sparse, falling": (["01" + "0201" + ONE * 2], 1, 5, "do not increase"),
    "sparse, repeated": (["01" + "0202" + ONE * 2], 1, 5, "do not increase"),
    "sparse, bad in the second row": (["01" + "00010100" + ONE * 4], 2, 5, "do not increase"),
    "sparse, infinite": (["01" + "00" + INFINITE], 1, 5, "not finite"),
    "digits, negative scale": (["11" + MINUS_ONE + "00"], 1, 5, "scale"),
    "digits, infinite scale": (["11" + INFINITE + "00"], 1, 5, "scale"),
    "digits, NaN scale": (["11" + NAN + "00"], 1, 5, "scale"),
    "digits, NaN scale second": (["11" + ONE + NAN + "0000"], 2, 5, "scale"),
    "bits, scale that overflows": (["14" + HUGEST + "80"], 1, 1, "scale"),
    "b = 1, no digits": (["11" + ONE + "f3"], 1, 5, "stands for no levels"),
    "b = 2, no digits": (["12" + ONE + "7d"], 1, 3, "stands for no levels"),
    "b = 3, no digits": (["13" + ONE + "51"], 1, 2, "stands for no levels"),
    "b = 4, level 9": (["14" + ONE + "88"], 1, 1, "beyond its bits"),
    "b = 16, level 32769": (["20" + ONE + "800080"], 1, 1, "beyond its bits"),
    "second is shorter": (["00" + ONE, "00" + ONE[:-2]], 1, 1, "than the others"),
    "second is of another form": (["11" + ONE + "00", "12" + ONE + "00"], 1, 1, "than the others"),
    "second is sparse": (["11" + ONE + "00", "01" + "00" + ONE], 1, 1, "than the others"),
    "second is empty": (["00" + ONE, ""], 1, 1, "than the others"),
    # together they are as long as three good ones
    "one short, one long": (["00" + ZERO, "00" + ZERO[:-2], "00" + ZERO + "00"], 1, 1, "than the others"),
}


@pytest.mark.parametrize(("payloads", "channels", "dimension", "problem"), BAD.values(), ids=BAD.keys())
def test_decode_refuses(payloads: list[str], channels: int, dimension: int, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        decode([bytes.fromhex(payload) for payload in payloads], channels, dimension)


@pytest.mark.parametrize("form", [0, 1, 17, 20, 32])
@pytest.mark.parametrize("dimension", [2**27, 2**32])
def test_a_short_payload_for_the_largest_dimensions(form: int, dimension: int) -> None:
    """`Ready` allows dimensions up to 2^32."""
    with pytest.raises(ProtocolError):
        decode([bytes((form,)) + bytes(40)], 2, dimension)


def test_a_long_payload_for_a_large_dimension() -> None:
    """Long enough for a bit a coordinate, still far too short; and the vectors would fill 2 GiB."""
    with pytest.raises(ProtocolError):
        decode([bytes(2**25 + 1)], 2, 2**27)


def mutated(rng: np.random.Generator, payload: bytes) -> bytes:
    """Truncated, extended, with bits flipped, with another form, or wholly random."""
    how = rng.integers(6)
    position = int(rng.integers(len(payload)))
    if how == 0:
        return payload[:position]
    if how == 1:
        return payload + rng.bytes(int(rng.integers(1, 12)))
    if how == 2:
        flipped = payload[position] ^ 1 << int(rng.integers(8))
        return payload[:position] + bytes((flipped,)) + payload[position + 1 :]
    if how == 3:
        return bytes((int(rng.integers(40)),)) + payload[1:]
    if how == 4:
        return payload[:1] + rng.bytes(len(payload) - 1)
    return rng.bytes(len(payload))


def finite_or_refused(payloads: list[bytes], channels: int, dimension: int) -> bool:
    """Whether these were decoded; anything but good vectors or a ProtocolError fails the test."""
    try:
        vectors = decode(payloads, channels, dimension)
    except ProtocolError:
        return False
    values = vectors.dense()
    assert values.shape == (len(payloads), channels, dimension)
    assert np.isfinite(values).all()
    return True


def test_decoding_damaged_payloads_is_total() -> None:
    rng = np.random.default_rng(7)
    decoded = 0
    cases = 6000
    for _ in range(cases):
        form = str(rng.choice(["dense", "sparse", *map(str, range(1, MAX_BITS + 1))]))
        channels, dimension = int(rng.integers(1, 4)), int(rng.integers(1, 40))
        k = int(rng.integers(1, dimension + 1))
        payloads = [
            encode(random_vectors(rng, form, channels, dimension, k)) for _ in range(rng.integers(1, 4))
        ]
        victim = int(rng.integers(len(payloads)))
        payloads[victim] = mutated(rng, payloads[victim])
        decoded += finite_or_refused(payloads, channels, dimension)
    assert 0 < decoded < cases  # both outcomes were seen


@settings(deadline=None, max_examples=1000)
@given(st.lists(st.binary(max_size=60), min_size=1, max_size=3), st.integers(1, 3), st.integers(1, 300))
def test_decoding_any_bytes_is_total(payloads: list[bytes], channels: int, dimension: int) -> None:
    finite_or_refused(payloads, channels, dimension)
