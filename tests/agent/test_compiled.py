"""The compiled core against the one in numpy: the same bits, whatever comes in."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpgt.agent import compiled
from cpgt.agent.algorithms.cpgt import CPGT
from cpgt.agent.compiled import CompiledCore
from cpgt.agent.compressors.quantizers import Quantizer
from cpgt.agent.compressors.registry import Identity
from cpgt.agent.compressors.sparsifiers import TopK
from cpgt.agent.core import ArrayCore, Core, make_core
from cpgt.agent.errors import DivergedError
from cpgt.agent.objectives.regression import LeastSquares
from cpgt.agent.participant import Participant
from cpgt.agent.privacy.noise import LaplaceNoise
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.wire.errors import ProtocolError, WireError
from cpgt.wire.payloads import decoder, encode
from cpgt.wire.transports import MemoryTransport
from cpgt.wire.vectors import Dense
from tests.agent.problems import Array, LogCosh
from tests.wire.fuzz import damaged

MOST = 32  # coordinates of a row


@pytest.fixture(autouse=True)
def compiler() -> None:
    if not compiled.COMPILED:
        if os.environ.get("CI") == "true":
            pytest.fail("the compiled part is missing; is there a C compiler, and Python.h?")
        pytest.skip("installed without a C compiler")


def algorithm_of(
    bits: int,
    alpha: float = 0.1,
    scale: float = 1.0,
    q: float = 0.9,
    magnitude: float | None = None,
) -> CPGT:
    noise = LaplaceNoise((scale, scale / 2), q, magnitude=magnitude)
    return CPGT(alpha, 0.3, Quantizer(bits), noise)


def cores(
    algorithm: CPGT, dimension: int, messages: int, seed: int, cost: type[LogCosh] = LogCosh
) -> list[Any]:
    rng = np.random.default_rng(seed)
    objective = cost(rng.standard_normal((3, dimension)), rng.standard_normal(3))
    weights = rng.dirichlet(np.ones(messages))
    mixing = algorithm.mixing(weights[0], weights[1:].tolist())
    x = rng.standard_normal(dimension)
    return [
        make(algorithm, objective, x, mixing, Randomness(seeded_secret(seed, 1)))
        for make in (CompiledCore, ArrayCore)
    ]


def from_neighbours(
    rng: np.random.Generator, algorithm: CPGT, dimension: int, number: int
) -> list[bytes]:
    """Messages of all sizes of scale, 0 among them."""
    shape = (number, 2, dimension)
    sizes = rng.choice([0.0, 1e-200, 1e-30, 1.0, 1e9, 1e30], (number, 1, 1))
    vectors, dithers = sizes * rng.standard_normal(shape), rng.random(shape)
    return [
        encode(algorithm.compressor.compress(v, u)) for v, u in zip(vectors, dithers, strict=True)
    ]


def assert_same(one: Core, other: Core) -> None:
    for name in ("values", "reference"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name


@settings(max_examples=200, deadline=None)
@given(
    bits=st.integers(1, 16),
    dimension=st.integers(1, MOST),
    messages=st.integers(1, 12),
    scale=st.sampled_from([1e-12, 1e-3, 1.0, 1e6]),
    q=st.sampled_from([0.5, 0.99, 1.0]),
    magnitude=st.sampled_from([None, 0.3, 1e3, 1e40]),  # reached always, mostly, never
    seed=st.integers(0, 2**32),
)
def test_both_cores_give_the_same_bits(
    bits: int,
    dimension: int,
    messages: int,
    scale: float,
    q: float,
    magnitude: float | None,
    seed: int,
) -> None:
    algorithm = algorithm_of(bits, scale=scale, q=q, magnitude=magnitude)
    compiled, arrays = cores(algorithm, dimension, messages, seed)
    rng = np.random.default_rng(seed)
    assert_same(compiled, arrays)
    for k in range(70):  # more than a block of random numbers
        payload = compiled.payload(k)
        assert payload == arrays.payload(k)
        assert compiled.eta_y.tobytes() == arrays.eta_y.tobytes()
        payloads = [payload, *from_neighbours(rng, algorithm, dimension, messages - 1)]
        compiled.absorb(payloads)
        arrays.absorb(payloads)
        assert_same(compiled, arrays)
        assert np.abs(compiled.values).max() <= (magnitude or np.inf)


def test_a_magnitude_that_is_not_reached_changes_no_bit() -> None:
    free, bound = (cores(algorithm_of(2, magnitude=m), 10, 1, 7)[0] for m in (None, 1e6))
    for k in range(70):
        payload = free.payload(k)
        assert bound.payload(k) == payload
        free.absorb([payload])
        bound.absorb([payload])
        assert_same(free, bound)


def test_a_bounded_state_is_finite_whatever_the_gradient_is() -> None:
    class Broken(LogCosh):
        rounds = 0

        def gradient(self, x: Array) -> Any:
            self.rounds += 1
            return super().gradient(x) * (1.0, np.nan, np.inf, 1.0, -np.inf)[self.rounds % 5]

    for made in cores(algorithm_of(2, magnitude=7.0), 10, 1, 7, Broken):
        for k in range(20):
            made.absorb([made.payload(k)])
            assert np.abs(made.values).max() <= 7.0


def test_an_objective_may_give_single_precision() -> None:
    class Single(LogCosh):
        def gradient(self, x: Array) -> Any:
            return super().gradient(x).astype(np.float32)

    made = cores(algorithm_of(2), 10, 1, 7, Single)
    for k in range(20):
        sent = [core.payload(k) for core in made]
        for core, payload in zip(made, sent, strict=True):
            core.absorb([payload])
        assert_same(*made)


@pytest.mark.parametrize("compressor", [Identity(), TopK(2), Quantizer(5), Quantizer(2, bucket=3)])
def test_a_neighbour_may_send_another_form(compressor: Any) -> None:
    compiled, arrays = cores(algorithm_of(2), 10, 3, 1)
    rng = np.random.default_rng(2)
    for k in range(20):
        payloads = [compiled.payload(k), *from_neighbours(rng, algorithm_of(2), 10, 2)]
        arrays.payload(k)
        payloads[1 + k % 2] = encode(
            compressor.compress(rng.standard_normal((2, 10)), rng.random((2, 10)))
        )
        compiled.absorb(payloads)
        arrays.absorb(payloads)
        assert_same(compiled, arrays)


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 8, 16])
@pytest.mark.parametrize("dimension", [1, 7, 10, MOST])
def test_damaged_payloads_are_read_as_elsewhere_or_refused(bits: int, dimension: int) -> None:
    """2,000 for each shape: the same numbers as the other decoder reads, or nothing has changed."""
    rng = np.random.default_rng(bits)
    compiled, arrays = cores(algorithm_of(bits), dimension, 2, 3)
    own = compiled.payload(0)
    arrays.payload(0)
    (good,) = from_neighbours(rng, algorithm_of(bits), dimension, 1)
    read = 0
    for bad in damaged(rng, good, 2000):
        try:
            decoder(2, dimension)([bad])
        except ProtocolError as error:
            before = compiled._round.values, compiled._round.reference
            with pytest.raises(ProtocolError, match=str(error)):
                compiled.absorb([own, bad])
            assert before == (compiled._round.values, compiled._round.reference)
            continue
        with np.errstate(all="ignore"):  # scales near the end of their range
            compiled.absorb([own, bad])
            arrays.absorb([own, bad])
        if np.isfinite(arrays.values).all():  # otherwise it may be another kind of "not a number"
            assert_same(compiled, arrays)
        read += 1
    assert 50 < read < 1950


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_taken_from_nobody(value: float) -> None:
    compiled, _ = cores(algorithm_of(2), 10, 2, 4)
    own = compiled.payload(0)
    values = np.zeros((2, 10))
    values[1, 9] = value
    scale = own[:1] + np.array([1.0, value], "<f4").tobytes() + own[9:]
    for payload in (bytes(1) + values.tobytes(), scale, b""):
        with pytest.raises(ProtocolError):
            compiled.absorb([own, payload])


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e308, 1e300, 1e200, 1e60, 1e37, 1.0])
def test_both_cores_send_the_same_or_nothing(value: float) -> None:
    """However large the state has become."""
    sent = []
    for core in cores(algorithm_of(2), 10, 1, 5):
        core.payload(0)
        core._objective = LeastSquares(np.eye(10), np.array([1.0] * 9 + [value]))
        with np.errstate(all="ignore"):
            core.absorb([encode(Dense(np.zeros((2, 10))))])
            try:
                sent.append(core.payload(1))
            except WireError:
                sent.append(b"")
    assert sent[0] == sent[1] and bool(sent[0]) is (abs(value) <= 1e37)


def test_a_run_that_diverges_says_so() -> None:
    transports = MemoryTransport.network({1: ()})
    steep = LeastSquares(1e3 * np.eye(3), np.ones(3))
    participant = Participant(
        1, {1: 1.0}, algorithm_of(2), steep, np.ones(3), Randomness(bytes(32)), transports[1]
    )
    assert isinstance(participant.core, CompiledCore)
    with np.errstate(all="ignore"), pytest.raises(DivergedError, match="no longer finite in round"):
        for _ in range(1000):
            participant.send()
            participant.collect(lambda: None)


def test_what_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def core(algorithm: CPGT, dimension: int) -> type:
        x = np.zeros(dimension)
        objective = LeastSquares(np.eye(dimension), x)
        return type(
            make_core(algorithm, objective, x, algorithm.mixing(1.0, []), Randomness(bytes(32)))
        )

    noise = LaplaceNoise((1.0, 1.0), 0.9)
    for suited in (algorithm_of(1), algorithm_of(16)):
        assert core(suited, 10) is core(suited, MOST) is CompiledCore
        assert core(suited, MOST + 1) is ArrayCore
    for other in (
        CPGT(0.1, 0.3, Identity(), noise),
        CPGT(0.1, 0.3, Quantizer(2, bucket=2), noise),
        CPGT(0.1, 0.3, Quantizer(2), LaplaceNoise((1.0, 0.0), 0.9)),
    ):
        assert core(other, 10) is ArrayCore
    monkeypatch.setattr(compiled, "COMPILED", False)
    assert core(algorithm_of(2), 10) is ArrayCore


def test_the_compiled_part_checks_what_it_is_given() -> None:
    round_ = cores(algorithm_of(2), 10, 2, 6)[0]._round
    make = type(round_)
    doubles = bytes(8 * 10)
    for bits, weights, values, gradient in (
        (0, doubles, doubles * 2, doubles),
        (17, doubles, doubles * 2, doubles),
        (2, b"", doubles * 2, doubles),
        (2, doubles[1:], doubles * 2, doubles),
        (2, doubles, doubles, doubles),
        (2, doubles, b"", b""),
        (2, doubles, doubles * 20, doubles * 10),
    ):
        with pytest.raises(ValueError, match="not supported"):
            make(bits, 0.1, 2.0, 0.1, 1e-140, np.inf, weights, values, gradient)
    x = np.empty(10)
    own = encode(Dense(np.zeros((2, 10))))
    calls: list[tuple[Callable[[], Any], type[Exception]]] = [
        (lambda: round_.payload(doubles), TypeError),
        (lambda: round_.payload(1), TypeError),
        (lambda: round_.absorb([own], x), ValueError),
        (lambda: round_.absorb([own, 1], x), ValueError),
        (lambda: round_.absorb((own, own), x), TypeError),
        (lambda: round_.absorb([own, own], x[:9]), ValueError),
        (lambda: round_.absorb([own, own], np.empty(20)[::2]), ValueError),
        (lambda: round_.absorb([own, own], bytes(80)), BufferError),
        (lambda: round_.track(x[:9]), ValueError),
    ]
    for call, error in calls:
        with pytest.raises(error):
            call()
