"""Draws are a function of (secret, label, round, trial), and of nothing else."""

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from cpgt.agent.algorithms.cpgt import CPGT
from cpgt.agent.compressors.quantizers import Quantizer
from cpgt.agent.compressors.registry import Identity
from cpgt.agent.objectives.registry import Idle
from cpgt.agent.privacy.noise import LaplaceNoise, NoiseDraw
from cpgt.agent.privacy.randomness import (
    BLOCK_WORDS,
    MAX_BLOCK_ROUNDS,
    SECRET_BYTES,
    Label,
    Randomness,
    fresh_secret,
    seeded_secret,
    unit_uniform,
)
from cpgt.wire.payloads import encode
from tests.agent.problems import Array

SECRET = seeded_secret(1, 1)
DITHERED = CPGT(0.1, 0.5, Quantizer(2), LaplaceNoise((1.0, 2.0), 1.0))
# rounds in a block: as many as allowed; a few; exactly one; one that is larger than a block
SHAPES = [(2, 3), (2, 100), (2, BLOCK_WORDS // 2), (2, BLOCK_WORDS)]


def drawn(
    k: int, shape: tuple[int, ...], secret: bytes = SECRET, algorithm: CPGT = DITHERED
) -> Array:
    """Noise and dither of one round, from an object that never drew anything before."""
    return one_array(Randomness(secret).draw(k, shape, algorithm))


def one_array(drawn: tuple[NoiseDraw, Array]) -> Array:
    noise, dither = drawn
    return np.array([noise.z * noise.step, dither])


# --- a function of what it is asked ---------------------------------------------------------------


@pytest.mark.parametrize("shape", [*SHAPES, (4, 2, 100)], ids=str)
def test_the_order_of_asking_does_not_matter(shape: tuple[int, ...]) -> None:
    rounds = list(range(2 * MAX_BLOCK_ROUNDS + 3))
    in_order = Randomness(SECRET)
    wanted = [one_array(in_order.draw(k, shape, DITHERED)) for k in rounds]
    backwards = Randomness(SECRET)
    for k in reversed(rounds):
        assert np.array_equal(one_array(backwards.draw(k, shape, DITHERED)), wanted[k])
    for k in (0, 1, 5, 6, MAX_BLOCK_ROUNDS - 1, MAX_BLOCK_ROUNDS, 2 * MAX_BLOCK_ROUNDS):
        assert np.array_equal(drawn(k, shape), wanted[k])
    assert len({one.tobytes() for one in wanted}) == len(rounds)


def test_drawing_other_shapes_or_for_others_in_between_does_not_matter() -> None:
    other = CPGT(0.3, 0.1, Identity(), LaplaceNoise((5.0, 0.0), 0.5))
    randomness = Randomness(SECRET)
    for k in range(MAX_BLOCK_ROUNDS - 3, MAX_BLOCK_ROUNDS + 3):
        randomness.draw(k + 1, (2, 7), DITHERED)
        randomness.draw(k, (3, 2, 5), DITHERED)
        assert np.array_equal(one_array(randomness.draw(k, (2, 5), DITHERED)), drawn(k, (2, 5)))
        found = one_array(randomness.draw(k, (2, 5), other))
        assert np.array_equal(found, drawn(k, (2, 5), algorithm=other))


def test_the_noise_does_not_depend_on_the_compressor() -> None:
    plain = CPGT(0.1, 0.5, Identity(), DITHERED.noise)
    for k in (0, 63, 64, 1000):
        assert np.array_equal(drawn(k, (2, 5))[0], drawn(k, (2, 5), algorithm=plain)[0])


def test_a_round_played_again_sends_the_same_bytes() -> None:
    idle, again = Idle(5), Randomness(SECRET)
    state = DITHERED.start(idle, np.ones(5))
    first = DITHERED.outgoing(state, 70, again)
    DITHERED.absorb(state, first, idle, [])
    DITHERED.outgoing(state, 2, again)
    for randomness in (again, Randomness(SECRET)):
        assert encode(DITHERED.outgoing(state, 70, randomness).message) == encode(first.message)


def test_trial_0_of_a_batch_draws_what_a_single_run_draws() -> None:
    for k, d in itertools.product((0, 1, 63, 64, 200), (3, 100, 2000)):
        single = drawn(k, (2, d))
        assert np.array_equal(drawn(k, (4, 2, d))[:, 0], single)
        assert np.array_equal(drawn(k, (2, 3, 2, d))[:, 0, 0], single)
        assert np.array_equal(drawn(k, (9, 2, d))[:, :4], drawn(k, (4, 2, d)))


def test_the_words_are_the_cipher_s() -> None:
    """RFC 8439, appendix A.1, test vectors 1 and 2: key, nonce zero; block counter 0, then 1."""
    words = Randomness(bytes(32)).words(Label.START, 0, (1, 1, 16))
    stream = words.tobytes().hex()
    assert stream.startswith("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")
    assert stream[128:].startswith("9f07e7be5551387a98ba977c732d080d")


# --- different where anything is different, and independent ---------------------------------------

N = 20_000


def uniform(
    secret: bytes = SECRET, label: Label = Label.NOISE, block: int = 0, trial: int = 0
) -> Array:
    words = Randomness(secret).words(label, block, (1, trial + 1, 1, N))
    return unit_uniform(words[0, trial, 0])


STREAMS = {
    "first": uniform(),
    "other seed": uniform(seeded_secret(2, 1)),
    "other agent": uniform(seeded_secret(1, 2)),
    "seed and agent swapped": uniform(seeded_secret(11, 1)),
    "other label": uniform(label=Label.DITHER),
    "start": uniform(label=Label.START),
    "other block": uniform(block=1),
    "far block": uniform(block=2**32),
    "other trial": uniform(trial=1),
    "far trial": uniform(trial=300),
}


def test_streams_are_uncorrelated() -> None:
    """|r| sqrt(N) is about standard normal: 5 is passed once in two million."""
    correlations = np.corrcoef(list(STREAMS.values()))
    for (i, one), (j, other) in itertools.combinations(enumerate(STREAMS), 2):
        assert abs(correlations[i, j]) < 5 / np.sqrt(N), f"{one} and {other}"


@pytest.mark.parametrize("name", STREAMS)
def test_streams_are_uniform(name: str) -> None:
    stream = STREAMS[name]
    assert 0 <= stream.min() < stream.max() < 1
    assert stats.kstest(stream, "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(stream[1:], stream[:-1])[0, 1]) < 5 / np.sqrt(N)


def test_rounds_channels_and_the_dither_are_uncorrelated() -> None:
    randomness = Randomness(SECRET)
    draws = np.array([one_array(randomness.draw(k, (2, 40), DITHERED)) for k in range(501)])
    noise, dither = draws[:, 0], draws[:, 1]
    pairs = [
        (noise[1:], noise[:-1]),
        (dither[1:], dither[:-1]),
        (noise[:, 0], noise[:, 1]),
        (dither[:, 0], dither[:, 1]),
        (noise, dither),
        (np.abs(noise), dither),
        (noise[MAX_BLOCK_ROUNDS:], noise[:-MAX_BLOCK_ROUNDS]),  # the same place in the next block
    ]
    for one, other in pairs:
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 5 / np.sqrt(one.size)


def test_unit_uniform_never_reaches_1() -> None:
    extremes: NDArray[np.uint64] = np.array([0, 2**64 - 1, 2**63, 2**11 - 1], dtype=np.uint64)
    assert unit_uniform(extremes).tolist() == [0.0, 1 - 2.0**-53, 0.5, 0.0]


# --- secrets --------------------------------------------------------------------------------------


def test_secrets() -> None:
    assert len(SECRET) == len(fresh_secret()) == SECRET_BYTES == 32
    assert seeded_secret(1, 1) == SECRET
    pairs = itertools.product((-1, 0, 1, 11, 12, 2**70), (1, 2, 11, 12, 112))
    seeded = {seeded_secret(seed, agent) for seed, agent in pairs}
    assert len(seeded) == 30
    assert len({fresh_secret() for _ in range(100)} | seeded) == 130


@pytest.mark.parametrize("show", [repr, str, "{}".format])
def test_a_randomness_does_not_show_its_secret(show: type[str]) -> None:
    secret = b"correct horse battery staple 123"
    randomness = Randomness(secret)
    randomness.draw(0, (2, 3), DITHERED)
    for part in ("horse", secret.hex()[:16], str(list(secret))[1:20]):
        assert part not in show(randomness)
