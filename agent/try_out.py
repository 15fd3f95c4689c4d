"""Compressors and algorithms of the user's own, tried out on public vectors before the first round.

So a mistake is reported in one line that says what is wrong, and not by a neighbour that cannot
decode a message.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from cpgt.agent.algorithms import AnyAlgorithm
from cpgt.agent.compressors import Compressor
from cpgt.agent.core import ArrayCore
from cpgt.agent.errors import CodeError, InputError
from cpgt.agent.privacy.randomness import Randomness
from cpgt.extensions import located
from cpgt.wire.arrays import Floats
from cpgt.wire.payloads import decoder, encode
from cpgt.wire.vectors import Dense, Powers, Quantized, Sparse

FORMS = (Dense, Sparse, Quantized, Powers)
ROUNDS = 3
SLACK = 1e-6  # relative, for rounding


def check_algorithm(algorithm: AnyAlgorithm, dimension: int) -> None:
    """Raise InputError where the algorithm, or its compressor, cannot work in this dimension."""
    compressor = algorithm.compressor
    if _is_own(compressor):
        _try("compressor", lambda: try_compressor(compressor, algorithm.channels, dimension))
    if _is_own(algorithm):
        _try("algorithm", lambda: try_algorithm(algorithm, dimension))
    algorithm.check(dimension)


def _is_own(part: object) -> bool:
    return type(part).__module__.partition(".")[0] != "cpgt"


def _try(section: str, attempt: Callable[[], None]) -> None:
    try:
        attempt()
    except InputError:
        raise
    except Exception as error:
        raise CodeError(f"{section}: when it was tried out: {located(error)}") from None


def try_compressor(compressor: Compressor, channels: int, dimension: int) -> None:
    compressor.check(dimension)
    name, phi = f"compressor {type(compressor).__name__!r}", compressor.phi(dimension)
    if not (isinstance(phi, int | float) and 0 <= phi < math.inf):
        raise InputError(f"{name}: phi({dimension}) is {phi!r}, not a number of at least 0")
    draw = np.random.default_rng(0)
    for v in (draw.standard_normal((channels, dimension)), np.zeros((channels, dimension))):
        vectors = compressor.compress(v.copy(), draw.random(v.shape))
        if not isinstance(vectors, FORMS):
            forms = ", ".join(form.__name__ for form in FORMS)
            raise InputError(f"{name}: compress gives a {type(vectors).__name__}, not {forms}")
        dense = np.asarray(vectors.dense())
        if dense.shape != v.shape:
            raise InputError(f"{name}: C(v) has shape {dense.shape}, not {v.shape}")
        (decoded,) = decoder(channels, dimension)([encode(vectors)]).dense()
        if not np.array_equal(decoded, dense):
            raise InputError(f"{name}: C(v) cannot be sent: decoded, it is another vector")
        errors, lengths = ((a * a).sum(axis=-1) for a in (dense - v, v))
        if not compressor.dithered and (errors > (phi + SLACK) * lengths).any():
            raise InputError(f"{name}: |C(v) - v|^2 is more than phi |v|^2, phi = {phi:g}")


class _Bowl:
    """f(x) = |x|^2 / 2"""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    def gradient(self, x: Floats) -> Floats:
        return x.copy()


def try_algorithm(algorithm: AnyAlgorithm, dimension: int) -> None:
    """Some rounds of two agents that do the same."""
    name = f"algorithm {type(algorithm).__name__!r}"
    if algorithm.channels not in (1, 2):
        raise InputError(f"{name}: channels = {algorithm.channels}; it must be 1 (x) or 2 (x, y)")
    mixing = algorithm.mixing(0.5, [0.5])
    core = ArrayCore(algorithm, _Bowl(dimension), np.ones(dimension), mixing, Randomness(bytes(32)))
    for k in range(ROUNDS):
        payload = core.payload(k)
        _check_shape(name, "eta_y", core.eta_y, ((algorithm.channels - 1) * dimension,))
        core.absorb([payload, payload])
        _check_shape(name, "state.values", core.values, (algorithm.channels, dimension))
        _check_shape(name, "reference(state)", core.reference, (dimension,))
    questions = algorithm.gradients(100)
    if not (isinstance(questions, int) and questions >= 1):
        raise InputError(f"{name}: gradients(100) is {questions!r}, not a count")


def _check_shape(name: str, what: str, found: Floats, due: tuple[int, ...]) -> None:
    if np.shape(found) != due:
        raise InputError(f"{name}: {what} has shape {np.shape(found)}, not {due}")
