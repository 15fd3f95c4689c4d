"""The objective mechanism in exact arithmetic, from its formulas.

Nothing of the project is imported.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def regression_term(A: Array, b: Array, scale: float) -> list[Fraction]:
    """c of scale |A x - b|^2 = ... - 2 scale sum_r b_r a_r x."""
    return [
        -sum(
            (Fraction(2.0 * scale * a) * Fraction(t) for a, t in zip(column, b, strict=True)),
            Fraction(0),
        )
        for column in A.T
    ]


def labels_term(A: Array, labels: Array, label: float, scale: float) -> list[Fraction]:
    """c of one class: -scale times the sum of the rows with this label."""
    rows = [row for row, found in zip(A, labels, strict=True) if found == label]
    return [
        -sum((Fraction(scale * row[j]) for row in rows), Fraction(0)) for j in range(A.shape[1])
    ]


def logistic_loss(A: Array, signs: Array, l2: float, scale: float, x: Array) -> float:
    return scale * float(np.log1p(np.exp(-signs * (A @ x))).sum()) + l2 / 2 * float(x @ x)


def packed_norm(difference: NDArray[np.int64], d: int) -> float:
    """Frobenius norm of packed moments: diagonal, vector, above the diagonal (which counts twice).

    In whole numbers up to the root."""
    numbers = [int(n) for n in difference]
    return math.sqrt(
        sum(n * n for n in numbers[: 2 * d]) + 2 * sum(n * n for n in numbers[2 * d :])
    )


def packed_moments(v: list[list[int]], w: list[int]) -> list[int]:
    d = len(v[0])
    pairs = [(i, i) for i in range(d)], [(i, j) for i in range(d) for j in range(i + 1, d)]
    diagonal, above = ([sum(row[i] * row[j] for row in v) for i, j in some] for some in pairs)
    vector = [sum(t * row[i] for row, t in zip(v, w, strict=True)) for i in range(d)]
    return diagonal + vector + above


def coarse_spherical(bits: int, reach: int) -> Array:
    """P(z) of the pure noise in two dimensions, for |z_1|, |z_2| <= reach, with 2^bits steps."""
    z = np.arange(-reach, reach + 1)
    first, second = np.meshgrid(z, z, indexing="ij")
    taxi = np.abs(first) + np.abs(second)
    excess = np.rint(math.sqrt(2) * np.hypot(first, second) - taxi)
    weights: Array = np.exp(-(taxi + excess) / 2**bits)
    weights /= weights.sum()
    return weights
