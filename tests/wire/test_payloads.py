"""The byte layout of payloads: exact bytes, round trips, sizes, and refusals on either side."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bench.sizes import top_sizes
from cpgt.agent.compressors import Compressor
from cpgt.agent.compressors.quantizers import Quantizer
from cpgt.agent.compressors.registry import Identity
from cpgt.agent.compressors.sparsifiers import RandomK, TopK
from cpgt.wire.errors import ProtocolError, WireError
from cpgt.wire.frames import build_frame
from cpgt.wire.packing import MAX_BITS
from cpgt.wire.payloads import decode, encode
from cpgt.wire.vectors import Dense, Powers, Quantized, Sparse, Vectors
from tests.wire.examples import FORMS, LARGEST, STYLES, TINIEST, message

# As they stand in a payload.
ONE, MINUS_TWO, HALF = "000000000000f03f", "00000000000000c0", "000000000000e03f"
ZERO, MINUS_ZERO = "0000000000000000", "0000000000000080"
SMALLEST, HUGEST = "0100000000000000", "ffffffffffffef7f"
NAN, INFINITE = "000000000000f87f", "000000000000f07f"
ONE_4, HALF_4, TWO_4, TINY_4 = "0000803f", "0000003f", "00000040", "01000000"
NAN_4, INFINITE_4, MINUS_ONE_4, SIGNALLING_4 = "0000c07f", "0000807f", "000080bf", "0100807f"


def dense(*rows: list[float]) -> Dense:
    return Dense(np.array(rows, dtype=np.float64))


def sparse(
    dimension: int,
    indices: list[list[int]],
    values: list[list[float]],
    float_type: str = "f8",
    exponent: int = 0,
    seeds: list[int] | None = None,
) -> Sparse:
    return Sparse(
        dimension,
        np.array(indices, dtype=np.int64),
        np.array(values, dtype=np.float64),
        float_type,
        None if float_type == "f8" else np.full((len(values), 1), exponent),
        None if seeds is None else np.array(seeds, dtype=np.uint32)[:, None],
    )


def quantized(bits: int, scale: list[float], *levels: list[int], bucket: int = 0) -> Quantized:
    scales = np.array(scale, dtype=np.float32).reshape(len(levels), -1)
    return Quantized(bits, scales, np.array(levels, dtype=np.float64), bucket)


def powers(exponents: list[int], *levels: list[int]) -> Powers:
    return Powers(np.array(exponents)[:, None], np.array(levels, dtype=np.float64))


RHYTHM = [0, 0, 0, 0, 0, 1, 0, -1] * 16
CODED_RHYTHM = "40ff0315001505" + "40661b999732031657bcfb686f829348b994f722"

GOLDEN: dict[str, tuple[Vectors, str]] = {
    "dense, two rows": (dense([1.0, -2.0], [0.5, 0.0]), "00" + ONE + MINUS_TWO + HALF + ZERO),
    "dense, one number": (dense([-0.0]), "00" + MINUS_ZERO),
    "dense, extremes": (dense([TINIEST, LARGEST]), "00" + SMALLEST + HUGEST),
    # positions 3, 9, 10, 11 out of 20, l = 2: gaps 3 5 0 0 are 11 01 00 00, then 1 01 1 1, padding
    "sparse, f64": (
        sparse(10, [[3, 9], [0, 1]], [[1.0, -2.0], [0.5, 0.0]]),
        "01" + "02" + ONE + MINUS_TWO + HALF + ZERO + "d0b8",
    ),
    # 1/4 and -1/2, as values are sent over 2^2
    "sparse, f32": (
        sparse(10, [[3, 9]], [[1.0, -2.0]], "f4", 2),
        "02" + "02" + "0200" + "0000803e" + "000000bf" + "da",
    ),
    "sparse, f16": (sparse(10, [[3]], [[-3.0]], "f2", 2), "03" + "01" + "0200" + "00ba" + "70"),
    "sparse, all": (
        sparse(3, [[0, 1, 2]], [[1.0] * 3], "f2", 1),
        "03" + "03" + "0100" + "0038" * 3,
    ),
    "sparse, all but one": (
        sparse(10, [[0, 1, 2, 3, 4, 5, 6, 8, 9]], [[1.0] * 9], "f2", 1),
        "03" + "09" + "0100" + "0038" * 9 + "f0",
    ),
    "sparse, far": (
        sparse(1000, [[999]], [[1.0]], "f2", 1),
        "03" + "01" + "0100" + "0038" + "f3a0",
    ),
    "sampled, f64": (
        sparse(10, [[2, 5], [0, 4]], [[1.0, -2.0], [0.5, 0.0]], seeds=[7, 8]),
        "05" + "02" + "07000000" + "08000000" + ONE + MINUS_TWO + HALF + ZERO,
    ),
    "sampled, f32": (
        sparse(10, [[2]], [[1.0]], "f4", 1, [7]),
        "06" + "01" + "07000000" + "0100" + "0000003f",
    ),
    "sampled, f16": (
        sparse(10, [[2]], [[1.0]], "f2", 1, [7]),
        "07" + "01" + "07000000" + "0100" + "0038",
    ),
    # a plain section of 3 bits: 001 000 100 010 001 101
    "powers": (powers([3, -5], [1, 0, -2], [-1, 1, 3]), "08" + "0300" + "fbff" + "03" + "222340"),
    "powers, zero": (powers([-1200], [0, 0, 0]), "08" + "50fb" + "00"),
    "b = 0": (quantized(0, [0.5], [1, -1, -1, 1, 1, 1, 1, 1, 1]), "20" + HALF_4 + "9f80"),
    # digits 2 1 0 1 2 in base 3: 162 + 27 + 0 + 3 + 2 = 194
    "b = 1, full byte": (quantized(1, [1.0], [1, 0, -1, 0, 1]), "21" + ONE_4 + "c2"),
    # then 0 and four padding digits 1: 27 + 9 + 3 + 1 = 40
    "b = 1, padding": (quantized(1, [1.0], [1, 0, -1, 0, 1, -1]), "21" + ONE_4 + "c228"),
    # rows follow each other without a gap: 2 2 2 0 0 = 162 + 54 + 18 = 234, then 0 and padding
    "b = 1, two rows": (
        quantized(1, [1.0, 2.0], [1, 1, 1], [-1, -1, -1]),
        "21" + ONE_4 + TWO_4 + "ea28",
    ),
    # digits 4 0 3 in base 5: 103; then 1 2 2: 25 + 10 + 2 = 37
    "b = 2": (quantized(2, [0.5], [2, -2, 1, -1]), "22" + HALF_4 + "6725"),
    # digits 8 1 in base 9: 73; then 4 4: 40
    "b = 3": (quantized(3, [2.0], [4, -3, 0]), "23" + TWO_4 + "4928"),
    # 10000 00000 01000, one bit of padding
    "b = 4": (quantized(4, [1.0], [8, -8, 0]), "24" + ONE_4 + "8010"),
    # 65536, 0 and 32768 in 17 bits each: bits 0 and 35 are set
    "b = 16": (quantized(16, [2.0**-149], [32768, -32768, 0]), "30" + TINY_4 + "80000000100000"),
    # digits 4 1 3 in base 5
    "buckets": (
        quantized(2, [1.0, 0.5], [2, -1, 1], bucket=2),
        "62" + "02" + ONE_4 + HALF_4 + "6c",
    ),
    "coded, zero": (quantized(2, [0.0, 0.0], [0] * 40, [0] * 40), "42" + "00000000" * 2 + "00"),
    # two signs, in 1 B of positions 0 and 7: l = 5, gaps 0 and 6 are 00000 00110 and 1 1, hence 2 B
    "coded, signs": (
        quantized(2, [1.0], [1, *[0] * 6, -1, *[0] * 92]),
        "42" + ONE_4 + "42" + "02" + "02" + "01b0" + "40",
    ),
    # levels 2 and -1 plainly, in 2 bits: 11 10
    "coded, sparse": (
        quantized(2, [1.0], [2, *[0] * 6, -1, *[0] * 192]),
        "42" + ONE_4 + "41" + "02" + "02" + "006c" + "02" + "e0",
    ),
    # tokens -1 0 1; the others are 21/8 octaves rarer; 5 words of 4 B
    "coded, symbols": (quantized(2, [1.0], RHYTHM), "42" + ONE_4 + CODED_RHYTHM),
    "coded, plain": (
        quantized(8, [1.0], [-3, -2, -1, 0, 1, 2, 3] * 10),
        "48" + ONE_4 + "03" + "d102ee88177440bba205dd102ee88177440bba205dd102ee881740",
    ),
    "coded, buckets": (
        quantized(2, [1.0, 0.5], RHYTHM, bucket=64),
        "82" + "40" + ONE_4 + HALF_4 + CODED_RHYTHM,
    ),
    # from d = 4096 on a section for each row, the first of 6 B
    "coded, two sections": (
        quantized(1, [1.0, 1.0], [0] * 5 + [1] + [0] * 4090, [0] * 4096),
        "41" + ONE_4 * 2 + "06" + "42" + "01" + "02" + "00b0" + "00" + "00",
    ),
}


@pytest.mark.parametrize(("vectors", "expected"), GOLDEN.values(), ids=GOLDEN.keys())
def test_encodes_to_exactly_these_bytes(vectors: Vectors, expected: str) -> None:
    assert encode(vectors).hex() == expected


@pytest.mark.parametrize(("vectors", "payload"), GOLDEN.values(), ids=GOLDEN.keys())
def test_decodes_from_exactly_these_bytes(vectors: Vectors, payload: str) -> None:
    channels, dimension = vectors.dense().shape
    assert same(decode([bytes.fromhex(payload)], channels, dimension), [vectors])


def same(decoded: Vectors, sent: list[Vectors]) -> bool:
    """Bit for bit, but that 0 has no sign where levels travel."""
    found, wanted = decoded.dense(), np.stack([vectors.dense() for vectors in sent])
    if not isinstance(sent[0], Dense | Sparse):
        found, wanted = found + 0.0, wanted + 0.0
    return found.shape == wanted.shape and found.tobytes() == wanted.tobytes()


# --- round trips ----------------------------------------------------------------------------------

SEEDS = st.integers(0, 2**32 - 1)
# around 64 levels, whole bytes of digits, d = 4096
DIMENSIONS = st.sampled_from(
    [1, 2, 3, 10, 16, 31, 32, 33, 63, 64, 65, 100, 256, 300, 1000, 4095, 4096, 4097]
)


@settings(deadline=None, max_examples=600)
@given(
    st.sampled_from(FORMS),
    st.sampled_from(STYLES),
    st.integers(1, 3),
    DIMENSIONS,
    st.integers(1, 3),
    SEEDS,
)
@example("quantized-2", "signs", 1, 4097, 1, 1)
@example("sampled-f8", "any", 2, 1, 2, 0)
@example("buckets-16", "one", 1, 1, 1, 0)
def test_what_goes_in_comes_out(
    form: str, style: str, channels: int, dimension: int, count: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    several = [message(rng, form, style, channels, dimension) for _ in range(count)]
    payloads = [encode(vectors) for vectors in several]
    for vectors, payload in zip(several, payloads, strict=True):
        assert same(decode([payload], channels, dimension), [vectors])
    # Forms may differ: levels may be packed in one payload and coded in another.
    if len({payload[0] for payload in payloads}) == 1:
        assert same(decode(payloads, channels, dimension), several)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_and_style(form: str) -> None:
    rng = np.random.default_rng(3)
    for style in STYLES:
        for channels, dimension in ((1, 1), (2, 10), (2, 300), (1, 5000)):
            vectors = message(rng, form, style, channels, dimension)
            assert same(decode([encode(vectors)], channels, dimension), [vectors]), (
                style,
                dimension,
            )


@pytest.mark.parametrize("nonzero", [0, 1, 255, 256, 257, 624, 625, 626, 9_999, 10_000])
@pytest.mark.parametrize("top", [1, 2, 128])
def test_around_the_thresholds_of_sections(nonzero: int, top: int) -> None:
    """256 signs; a density of 1/16, at 625."""
    rng = np.random.default_rng(nonzero)
    levels = np.zeros((1, 10_000))
    places = rng.permutation(10_000)[:nonzero]
    levels[0, places] = rng.choice([-1, 1], nonzero) * rng.integers(1, top + 1, nonzero)
    vectors = Quantized(8, np.ones((1, 1), np.float32), levels)
    assert same(decode([encode(vectors)], 1, 10_000), [vectors])


@pytest.mark.parametrize("bits", range(1, MAX_BITS + 1))
def test_all_levels_survive(bits: int) -> None:
    top = 2 ** (bits - 1)
    levels = np.arange(-top, top + 1, dtype=np.float64)[None]
    vectors = Quantized(bits, np.ones((1, 1), np.float32), levels)
    assert np.array_equal(decode([encode(vectors)], 1, levels.size).dense()[0], levels)


@pytest.mark.parametrize("bits", [0, 1, 3, 4, 16])
@pytest.mark.parametrize("bucket", [0, 1])
def test_the_largest_scale(bits: int, bucket: int) -> None:
    largest, top = float(np.finfo(np.float32).max), 2 ** max(bits - 1, 0)
    number = 100 if bucket else 2
    vectors = quantized(
        bits, [largest] * (number if bucket else 1), [top, -top] * (number // 2), bucket=bucket
    )
    assert same(decode([encode(vectors)], 1, number), [vectors])
    assert np.abs(vectors.dense()).max() == top * largest


def test_a_level_of_minus_zero_is_zero() -> None:
    vectors = Quantized(2, np.ones((1, 1), np.float32), np.array([[-0.0, 0.0]]))
    assert encode(vectors) == encode(quantized(2, [1.0], [0, 0]))


def test_arrays_need_not_be_contiguous_or_little_endian() -> None:
    values = np.array([[1.0, -2.0], [0.5, 0.0]])
    expected = encode(Dense(values))
    assert encode(Dense(np.asfortranarray(values))) == expected
    assert encode(Dense(np.repeat(values, 2, axis=1)[:, ::2])) == expected
    assert encode(Dense(values.astype(">f8"))) == expected


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("compressor", "most"), [(Quantizer(2), 24), (TopK(2), 44), (Identity(), 168)], ids=str
)
def test_a_whole_message_at_d_10(compressor: Compressor, most: int) -> None:
    """Both channels and the envelope, for up to 127 agents and 65,535 rounds."""
    rng = np.random.default_rng(5)
    for spread in (0.0, 1.0, 20.0):
        for _ in range(300):
            v = rng.standard_normal((2, 10)) * 10.0 ** (spread * rng.uniform(-1, 1, (2, 10)))
            payload = encode(compressor.compress(v, rng.random((2, 10))))
            assert len(build_frame(127, 65_535, payload)) <= most


@pytest.mark.parametrize("values", ["float64", "float32", "float16"])
@pytest.mark.parametrize(
    ("d", "k"), [(100_000, 1000), (100_000, 100), (20_000, 200), (10_000, 2500)]
)
def test_top_k_is_within_5_percent_of_its_positions_and_values(d: int, k: int, values: str) -> None:
    for seed in range(3):
        least, sent = top_sizes(d, k, values, seed)
        assert sent <= 1.05 * least


def test_random_k_sends_a_seed_and_no_positions() -> None:
    v = np.random.default_rng(1).standard_normal((2, 100_000))
    message = RandomK(1000).compress(v, np.full(v.shape, 0.3))
    assert len(encode(message)) == 1 + 2 + 2 * 4 + 2 * 8 * 1000


@pytest.mark.parametrize("size", [0, 1, 21, 127, 128, 255, 256, 65_535, 65_536, 1_000_000])
def test_the_envelope_takes_at_most_4_bytes(size: int) -> None:
    for sender in (1, 127):
        for round_ in (0, 127, 128, 255, 256, 65_535):
            assert len(build_frame(sender, round_, bytes(size))) <= size + 4


# --- refusals when sending ------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "make",
    [
        lambda bad: dense([1.0, bad], [0.0, 0.0]),
        lambda bad: sparse(5, [[0, 4]], [[bad, 1.0]]),
        lambda bad: quantized(1, [1.0, bad], [0, 1], [1, 0]),
        lambda bad: quantized(5, [bad], [0, 1]),
        lambda bad: quantized(5, [1.0] * 99 + [bad], [0] * 100, bucket=1),
        lambda bad: Powers(np.zeros((1, 1), np.int64), np.array([[1.0, bad]])),
    ],
    ids=["dense", "sparse", "digits", "bits", "buckets", "powers"],
)
def test_encode_refuses_what_is_not_finite(make: Callable[[float], Vectors], bad: float) -> None:
    with pytest.raises(WireError, match="not finite"):
        encode(make(bad))


@pytest.mark.parametrize(
    "vectors",
    [quantized(2, [-1.0], [2]), powers([1024], [1])],
    ids=["negative scale", "power too large"],
)
def test_encode_refuses_what_decode_would_refuse(vectors: Vectors) -> None:
    with pytest.raises(WireError):
        encode(vectors)


@pytest.mark.parametrize(("size", "coded"), [(64, False), (65, True)])
def test_up_to_64_levels_are_always_packed(size: int, coded: bool) -> None:
    payload = encode(Quantized(2, np.ones((1, 1), np.float32), np.zeros((1, size))))
    assert payload[0] == (64 if coded else 32) + 2


def test_the_largest_power_of_two_is_sent() -> None:
    vectors = powers([1023], [1])
    assert decode([encode(vectors)], 1, 1).dense() == 2.0**1023


def test_decoded_messages_are_not_encoded_again() -> None:
    with pytest.raises(TypeError, match="decoded messages"):
        encode(decode([encode(powers([0], [1]))], 1, 1))


# --- refusals when receiving ----------------------------------------------------------------------

BAD: dict[str, tuple[list[str], int, int, str]] = {
    "nothing": ([""], 1, 1, "without a byte"),
    "form 4": (["04" + ONE], 1, 1, "unknown form 4"),
    "form 9": (["09" + ONE], 1, 1, "unknown form 9"),
    "17 bits": (["31" + ONE_4 + "000000"], 1, 1, "unknown form 49"),
    "17 bits, coded": (["51" + ONE_4 + "00"], 1, 1, "unknown form 81"),
    "form 255": (["ff"], 1, 1, "unknown form 255"),
    "dense, a byte short": (["00" + ONE[:-2]], 1, 1, "8 B where 9 B are due"),
    "dense, a byte long": (["00" + ONE + "00"], 1, 1, "10 B where 9 B are due"),
    "dense, NaN": (["00" + ONE + NAN], 1, 2, "not finite"),
    "dense, infinite": (["00" + INFINITE], 1, 1, "not finite"),
    "sparse, no length": (["01"], 1, 5, "ends too early"),
    "sparse, endless length": (["01" + "ffffffffff01"], 1, 5, "length of more than 5 B"),
    "sparse, no coordinate": (["01" + "00"], 1, 5, "0 coordinates out of 5"),
    "sparse, more than d": (["01" + "03" + ONE * 3], 1, 2, "3 coordinates out of 2"),
    "sparse, a value short": (["01" + "02" + ONE], 1, 5, "ends too early"),
    "sparse, no positions": (["01" + "01" + ONE], 1, 5, "not 1 out of 5"),
    "sparse, position = d": (["01" + "01" + ONE + "50"], 1, 5, "not 1 out of 5"),
    "sparse, too many positions": (["01" + "01" + ONE + "30"], 1, 5, "not 1 out of 5"),
    "sparse, too long": (["01" + "01" + ONE + "2000"], 1, 5, "not 1 out of 5"),
    "sparse, both in one row": (
        ["03" + "01" + "0000" * 2 + "0038" * 2 + "0c"],
        2,
        5,
        "the same number",
    ),
    "sparse, infinite": (["01" + "01" + INFINITE + "20"], 1, 5, "not finite"),
    "sparse, NaN that signals": (["02" + "01" + "0000" + SIGNALLING_4 + "20"], 1, 5, "not finite"),
    "sparse, too large an exponent": (["02" + "01" + "ff7f" + ONE_4 + "20"], 1, 5, "not finite"),
    "sampled, too long": (["05" + "01" + "00000000" + ONE + "00"], 1, 5, "1 B too many"),
    "powers, infinite": (["08" + "0004" + "01" + "80"], 1, 1, "exponent that no float has"),
    "powers, level beyond": (["08" + "0000" + "1f" + "fffffffe"], 1, 1, "beyond 2200"),
    "digits, negative scale": (["21" + MINUS_ONE_4 + "00"], 1, 5, "scale"),
    "digits, infinite scale": (["21" + INFINITE_4 + "00"], 1, 5, "scale"),
    "digits, NaN scale": (["21" + NAN_4 + "00"], 1, 5, "scale"),
    "digits, NaN scale second": (["21" + ONE_4 + NAN_4 + "0000"], 2, 5, "scale"),
    "buckets, NaN scale": (["61" + "01" + ONE_4 * 99 + NAN_4 + "00" * 20], 1, 100, "scale"),
    "buckets of 0": (["61" + "00" + ONE_4 + "00"], 1, 5, "buckets of 0"),
    "buckets of more than d": (["61" + "06" + ONE_4 + "00"], 1, 5, "buckets of 6"),
    "buckets, a byte short": (["61" + "05" + ONE_4], 1, 5, "0 B for 5 levels of 1 bits"),
    "buckets, a byte long": (["61" + "05" + ONE_4 + "0000"], 1, 5, "2 B for 5 levels of 1 bits"),
    "17 bits, buckets": (["71" + "01" + ONE_4 + "00"], 1, 1, "unknown form 113"),
    "b = 1, no digits": (["21" + ONE_4 + "f3"], 1, 5, "stands for no levels"),
    "b = 2, no digits": (["22" + ONE_4 + "7d"], 1, 3, "stands for no levels"),
    "b = 3, no digits": (["23" + ONE_4 + "51"], 1, 2, "stands for no levels"),
    "b = 4, level 9": (["24" + ONE_4 + "88"], 1, 1, "beyond its bits"),
    "b = 16, level 32769": (["30" + ONE_4 + "800080"], 1, 1, "beyond its bits"),
    "coded, level beyond": (["42" + ONE_4 + "03" + "a0"], 1, 1, "beyond 2"),
    "coded, no section": (["42" + ONE_4], 1, 1, "ends too early"),
    "coded, unknown section": (["42" + ONE_4 + "45"], 1, 1, "unknown form 69"),
    "second is shorter": (["00" + ONE, "00" + ONE[:-2]], 1, 1, "than the others"),
    "second is of another form": (
        ["21" + ONE_4 + "00", "22" + ONE_4 + "00"],
        1,
        1,
        "than the others",
    ),
    "second is coded": (["21" + ONE_4 + "00", "41" + ONE_4 + "00"], 1, 1, "than the others"),
    "second is packed": (["41" + ONE_4 + "00", "21" + ONE_4 + "00"], 1, 1, "than the others"),
    "second has more": (
        ["01" + "01" + ONE + "40", "01" + "02" + ONE * 2 + "20"],
        1,
        3,
        "than the others",
    ),
    "second is empty": (["00" + ONE, ""], 1, 1, "than the others"),
    # together they are as long as three good ones
    "one short, one long": (
        ["00" + ZERO, "00" + ZERO[:-2], "00" + ZERO + "00"],
        1,
        1,
        "than the others",
    ),
}


@pytest.mark.parametrize(
    ("payloads", "channels", "dimension", "problem"), BAD.values(), ids=BAD.keys()
)
def test_decode_refuses(payloads: list[str], channels: int, dimension: int, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        decode([bytes.fromhex(payload) for payload in payloads], channels, dimension)


@pytest.mark.parametrize("form", [0, 1, 5, 8, 32, 33, 36, 48, 98])
@pytest.mark.parametrize("dimension", [2**27, 2**32])
def test_a_short_payload_for_the_largest_dimensions(form: int, dimension: int) -> None:
    """`Ready` allows dimensions up to 2^32."""
    with pytest.raises(ProtocolError):
        decode([bytes((form,)) + b"\x01" * 40], 2, dimension)


# --- memory ---------------------------------------------------------------------------------------

HUGE = "ffffffff7f"  # the largest length: 2^35 - 1
HOSTILE = {
    "huge k": "01" + HUGE + ONE * 4,
    "huge k, sampled": "05" + HUGE + "00" * 40,
    "k = d, no values": "01" + "e807",
    "huge buckets": "62" + HUGE + ONE_4 * 4,
    "buckets of 1, no scales": "62" + "01" + ONE_4,
    "huge number of signs": "42" + ONE_4 + "42" + HUGE + "02" + "ffff",
    "huge size of positions": "42" + ONE_4 + "42" + "02" + HUGE + "ffff",
    "all positions, few signs": "42" + ONE_4 + "42" + "e807" + "00" + "ff",
    "huge number of words": "42" + ONE_4 + "40" + "ff03" + "150015" + HUGE + "00" * 8,
    "no words": "42" + ONE_4 + "40" + "ff03" + "150015" + "00",
    "largest model": "42" + ONE_4 + "40" + "81ff" + "00" * 255 + "00",
    "large tokens": "50" + ONE_4 + "40" + "7f01" + "00" + "00",
    "huge gaps": "50" + ONE_4 + "43" + "e807" + "04" + "7f010000" + "40" + "01010000",
    "plain, 31 bits": "50" + ONE_4 + "1f" + "00" * 100,
}


@pytest.mark.parametrize("payload", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_lengths_take_no_memory_beyond_the_dimension(payload: str) -> None:
    dimension = 1000
    data = bytes.fromhex(payload)
    decode_or_refuse(data, dimension)  # what is loaded and cached once is not of this payload
    tracemalloc.start()
    try:
        decode_or_refuse(data, dimension)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 * dimension + 16_384


def decode_or_refuse(data: bytes, dimension: int) -> None:
    with suppress(ProtocolError):
        assert np.isfinite(decode([data], 1, dimension).dense()).all()


def test_a_long_payload_for_a_large_dimension() -> None:
    """Long enough for a bit a coordinate, still far too short; and the vectors would fill 2 GiB."""
    with pytest.raises(ProtocolError):
        decode([bytes(2**25 + 1)], 2, 2**27)
