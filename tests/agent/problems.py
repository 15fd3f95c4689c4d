"""Small problems and the random draws of their runs, for the tests of the mathematics."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import cpgt
from cpgt.agent.algorithms import start_point
from cpgt.agent.objectives import Objective
from cpgt.agent.objectives.regression import LeastSquares
from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from tests.reference import cpgt as reference

Array = NDArray[np.float64]


class Compression(NamedTuple):
    """A compressor as the network file names it, and as the reference has it."""

    table: dict[str, Any]
    oracle: reference.Compressor
    gamma: float


# A quantizer is piecewise constant, so a run with a large gamma amplifies rounding. (8 bits, gamma
# 0.7: two runs of the reference that start one rounding apart differ by 1e-5 after 250 rounds.)
COMPRESSIONS = {
    "identity": Compression({"kind": "identity"}, reference.identity, 0.7),
    "top-1": Compression({"kind": "top-k", "k": 1}, reference.top_k(1), 0.1),
    "top-3": Compression({"kind": "top-k", "k": 3}, reference.top_k(3), 0.1),
    **{
        f"{bits}-bit": Compression(
            {"kind": "quantize", "bits": bits}, reference.quantizer(bits), 0.1
        )
        for bits in (1, 2, 3, 4, 8)
    },
}

NOISE = {"s_x": 1.0, "s_y": 1.0, "q": 0.97}


def make_network(
    compression: Compression, graph: Mapping[str, Any], *, alpha: float = 0.05, **tables: Any
) -> cpgt.Network:
    return cpgt.parse_network(
        {
            "rounds": 500,
            "start": "uniform",
            "graph": dict(graph),
            "algorithm": {"alpha": alpha, "gamma": compression.gamma},
            "compressor": compression.table,
            "noise": NOISE,
            "objective": {"kind": "least-squares"},
            **tables,
        }
    )


class Quadratics:
    """f_i = scale |A_i x - b_i|^2 of n agents, with an independent form of their gradients."""

    def __init__(self, agents: int, rows: int, dimension: int, scale: float, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.A = rng.standard_normal((agents, rows, dimension))
        self.b = rng.standard_normal((agents, rows))
        self.scale = scale

    @property
    def objectives(self) -> list[Objective]:
        return [LeastSquares(A, b, self.scale) for A, b in zip(self.A, self.b, strict=True)]

    def gradients(self, x: Array) -> Array:
        residual = np.einsum("nrd,nd->nr", self.A, x) - self.b
        gradients: Array = 2.0 * self.scale * np.einsum("nrd,nr->nd", self.A, residual)
        return gradients

    def limit(self, noise_sum: Array | float = 0.0) -> Array:
        """The x at which all gradients together are -noise_sum."""
        hessian = 2.0 * self.scale * np.einsum("nrd,nre->de", self.A, self.A)
        linear = 2.0 * self.scale * np.einsum("nrd,nr->d", self.A, self.b)
        return np.linalg.solve(hessian, linear - noise_sum)


class LogCosh:
    """f(x) = sum over rows of log cosh(a x - b): smooth, convex, not quadratic."""

    def __init__(self, A: Array, b: Array) -> None:
        self.dimension = A.shape[1]
        self.A, self.b = A, b

    def gradient(self, x: Array) -> Array:
        gradient: Array = np.tanh(x @ self.A.T - self.b) @ self.A
        return gradient


def stacked(objectives: Sequence[Objective], x: Array) -> Array:
    return np.stack([objective.gradient(row) for objective, row in zip(objectives, x, strict=True)])


class Draws(NamedTuple):
    """The random inputs of a run, each (K, n, d)."""

    eta_x: Array
    eta_y: Array
    u_x: Array
    u_y: Array


def draws_of(network: cpgt.Network, seed: int, rounds: int, dimension: int) -> Draws:
    """The draws of the project under this seed, without a run.

    Rounding x to the lattice adds at most half a step to eta, which is not included. For
    compressors without dither, u_x and u_y are arbitrary."""
    each = []
    for agent in network.agents:
        randomness, algorithm = Randomness(seeded_secret(seed, agent)), network.algorithm_of(agent)
        drawn = [randomness.draw(k, (2, dimension), algorithm) for k in range(rounds)]
        each.append([(noise.z * noise.step, dither) for noise, dither in drawn])
    noise, dither = np.moveaxis(np.array(each), (2, 3), (0, 1)).swapaxes(2, 3)
    return Draws(noise[0], noise[1], dither[0], dither[1])


def starts_of(network: cpgt.Network, seed: int, dimension: int) -> Array:
    secrets = (seeded_secret(seed, agent) for agent in network.agents)
    return np.stack(
        [start_point(network.start, Randomness(secret), (dimension,)) for secret in secrets]
    )


def relative_error(found: Array, wanted: Array) -> Array:
    """Round by round (first axis), against the largest value of that round."""
    axes = tuple(range(1, wanted.ndim))
    error: Array = np.abs(found - wanted).max(axis=axes) / np.abs(wanted).max(axis=axes)
    return error
