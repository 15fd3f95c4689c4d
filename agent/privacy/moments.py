"""The objective mechanism under record adjacency: the second moments of least squares, once.

f(x) = scale |A x - b|^2 + l2 / 2 |x|^2 depends on its records (a_r, b_r) through two sums alone:

    M = sum_r a_r a_r^T        m = sum_r b_r a_r        grad f = 2 scale (M x - m) + l2 x

Each record becomes whole numbers v = rint(K a / R) and w = rint(K b / B), with R = feature_bound
and B = target_bound. The bounds hold for the whole numbers: |v|_2 <= K and |w| <= K. A longer v is
shortened, and a record that is not finite becomes (0, 0). So nothing is refused because of a
record, v and w depend on their own record alone, and the sums of their products are exact in any
order.

Sensitivity. Think of the symmetric matrix z z^T with z = (v, w / sqrt(2)), without its last entry,
which is not needed. A record contributes to it, in the Frobenius norm,

    |v v^T|^2 + 2 |v w / sqrt(2)|^2 = |v|^4 + w^2 |v|^2 <= 2 K^4

and the difference of two records is |z z^T - z' z'^T|^2 = |z|^4 + |z'|^4 - 2 <z, z'>^2, at most
2 (K^2 + K^2 / 2)^2. So adjacent sums have a distance of at most

| adjacency             | distance      |
|-----------------------|---------------|
| add-remove            | sqrt(2) K^2   |
| record (replace one)  | 3/sqrt(2) K^2 |

In this norm an entry off the diagonal counts twice. So noise of deviation s on the diagonal of M
and on m, and of s / sqrt(2) on the entries above the diagonal, gives mu = distance / s:

    mu^2 = sum over the diagonal and m of (D / s)^2 + sum above the diagonal of 2 (D / s)^2

Where records have weights in [0, 1], a and b are multiplied by the root of the weight. So the same
bounds hold. (The letter w above is not the weight.)

The factor 1 / sqrt(2) of w is a choice; w itself would cost more noise on M than it saves on m
where |x| R >= B. The number of records appears nowhere, under neither adjacency.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective
from cpgt.agent.objectives.parts import HasSquaredErrors, SquaredErrors
from cpgt.agent.objectives.quadratic import Quadratic
from cpgt.agent.privacy.gaussian import MAX_SIGMA, rounded_gaussian
from cpgt.agent.privacy.gdp import mu_of
from cpgt.agent.privacy.lattice import Stream
from cpgt.agent.privacy.oracle import AnswerLog
from cpgt.agent.privacy.release import ROUND_UP, KeyedStream, Wholes, release
from cpgt.wire.arrays import Floats

PURPOSE = b"cpgt second moments 1"  # changes with every change of what the noise is computed from
K = 2**16  # a record has 16 bits of each bound
BLOCK_ROWS = 2**16  # K^2 BLOCK_ROWS < 2^53: floats hold every sum of a block exactly


@dataclass(frozen=True)
class MomentTerms:
    """What the noise is computed from. All of it is public."""

    feature_bound: float  # R, of |a|_2
    target_bound: float  # B, of |b|
    adjacency: Literal["record", "add-remove"]
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        for name in ("feature_bound", "target_bound"):
            if not 1e-100 <= getattr(self, name) <= 1e100:
                raise InputError(
                    f"privacy.{name} is {getattr(self, name):g}, but must be from 1e-100 to 1e100"
                )
        if self.adjacency not in ("record", "add-remove"):
            raise InputError(
                f"privacy.adjacency is {self.adjacency!r}, but second moments need 'record' or "
                "'add-remove'"
            )
        if not self.deviation <= MAX_SIGMA:
            raise InputError(
                f"privacy: epsilon = {self.epsilon:g} and delta = {self.delta:g} are too small "
                "for second moments; allow more"
            )

    @property
    def distance(self) -> float:
        """Of two adjacent sums; rounded up."""
        record = self.adjacency == "record"
        return (3 / math.sqrt(2) if record else math.sqrt(2)) * K**2 * ROUND_UP

    @property
    def deviation(self) -> float:
        """s; rounded up."""
        mu = mu_of(self.epsilon, self.delta)
        return self.distance / mu * ROUND_UP if mu else math.inf

    def draw(self, stream: Stream, dimension: int) -> Wholes:
        """The noise of packed moments."""
        above = dimension * (dimension - 1) // 2
        first = rounded_gaussian(stream, 2 * dimension, self.deviation)
        second = rounded_gaussian(stream, above, self.deviation / math.sqrt(2) * ROUND_UP)
        return np.concatenate([first, second])


class Moments(NamedTuple):
    """Sums over records of v v^T and of w v, in whole numbers."""

    matrix: Wholes  # (d, d), symmetric
    vector: Wholes  # (d,)

    def pack(self) -> Wholes:
        """The diagonal, the vector, and what is above the diagonal."""
        above = self.matrix[np.triu_indices(len(self.vector), 1)]
        return np.concatenate([np.diag(self.matrix), self.vector, above])

    @classmethod
    def unpack(cls, packed: Wholes, dimension: int) -> Moments:
        diagonal, vector, above = np.split(packed, [dimension, 2 * dimension])
        matrix = np.zeros((dimension, dimension), dtype=np.int64)
        matrix[np.triu_indices(dimension, 1)] = above
        return cls(matrix + matrix.T + np.diag(diagonal), vector)


def private_moments(
    objective: Objective,
    feature_bound: float,
    target_bound: float,
    adjacency: Literal["record", "add-remove"],
    epsilon: float,
    delta: float,
    keyed: KeyedStream,
    answers: AnswerLog | None = None,
) -> Quadratic:
    """A quadratic that is (epsilon, delta)-private, with any number of gradients, and may itself
    be published. Records are read here and never again, and after a restart not even here."""
    terms = MomentTerms(feature_bound, target_bound, adjacency, epsilon, delta)
    errors, d = _squared_errors(objective), objective.dimension
    numbers = struct.pack("<4dQ", feature_bound, target_bound, epsilon, delta, d)
    released = release(
        PURPOSE + numbers + adjacency.encode(),
        lambda: whole_moments(errors.A, errors.b, terms).pack(),
        lambda stream: terms.draw(stream, d),
        keyed,
        answers,
    )
    return make_quadratic(Moments.unpack(released, d), terms, errors.scale, errors.l2)


def _squared_errors(objective: Objective) -> SquaredErrors:
    if not isinstance(objective, HasSquaredErrors):
        raise InputError(
            'privacy.mechanism = "objective" under record and add-remove adjacency needs squared '
            "errors: least-squares, ridge, or your own objective with squared_errors(); for this "
            'one use mechanism = "gradient"'
        )
    return objective.squared_errors()


def whole_moments(A: Floats, b: Floats, terms: MomentTerms) -> Moments:
    """The exact sums, not private."""
    d = A.shape[1]
    matrix, vector = np.zeros((d, d), dtype=np.int64), np.zeros(d, dtype=np.int64)
    for start in range(0, len(A), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        with np.errstate(all="ignore"):
            v, w = whole_records(A[block], b[block], terms)
        matrix += (v.T @ v).astype(np.int64)
        vector += (w @ v).astype(np.int64)
    return Moments(matrix, vector)


def whole_records(A: Floats, b: Floats, terms: MomentTerms) -> tuple[Floats, Floats]:
    """v (m, d) and w (m,): whole numbers, in floats, with |v|_2 <= K and |w| <= K.

    Elementwise operations, the maximum of a row and sums of whole numbers give the same bits for a
    record in any batch."""
    largest = np.abs(A).max(axis=1)
    finite = np.isfinite(largest) & np.isfinite(b)
    rows, targets = np.where(finite[:, None], A, 0.0), np.where(finite, b, 0.0)
    # a row with an entry beyond R is longer than R: it may first become one with entries up to R
    bound = np.where(finite, np.maximum(largest, terms.feature_bound), 1.0)
    v = np.rint(rows / bound[:, None] * K)
    length = np.sqrt((v * v).sum(axis=1))[:, None]
    v = np.where(length > K, np.trunc(v * (K / np.maximum(length, K))), v)
    v[(v * v).sum(axis=1) > K**2] = 0.0  # truncation left none; the guarantee relies on this line
    return v, np.rint(np.clip(targets / terms.target_bound, -1.0, 1.0) * K)


def make_quadratic(
    moments: Moments, terms: MomentTerms, scale: float, l2: float | Floats
) -> Quadratic:
    """f~ from noised moments. Eigenvalues of M below s sqrt(d / 2) are raised to that number.

    The noise moves eigenvalues by up to s sqrt(2 d), so smaller ones say little, and negative ones
    would leave f~ without a minimum. Half of that was best where it mattered (decision 0022)."""
    d, unit = len(moments.vector), terms.feature_bound / K
    least = terms.deviation * math.sqrt(d / 2)
    values, vectors = np.linalg.eigh(moments.matrix.astype(np.float64))
    raised = vectors * np.maximum(values, least) @ vectors.T
    hessian = scale * unit**2 * (raised + raised.T) + l2 * np.eye(d)
    vector = 2 * scale * unit * (terms.target_bound / K) * moments.vector.astype(np.float64)
    return Quadratic(hessian, vector)
