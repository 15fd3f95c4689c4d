"""CPGT in textbook form, an independent oracle for the project's implementation.

All agents are stacked: x, y and the references x^c, y^c are arrays (n, d), one row an agent.
Nothing is optimised, encoded or sent. Nothing of the project is imported. Random numbers are
arguments. Rounds are k = 0 .. K-1; histories hold the states k = 0 .. K.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Compressor = Callable[[Array, Array], Array]
"""C(v, u) of one vector v (d,) with the dithers u (d,), uniform on [0, 1)."""


@dataclass(frozen=True)
class History:
    """States at k = 0 .. K, each (K + 1, n, d)."""

    x: Array
    y: Array
    x_reference: Array
    y_reference: Array


def identity(v: Array, u: Array) -> Array:  # noqa: ARG001 - the signature of every compressor
    return v.copy()


def top_k(k: int) -> Compressor:
    """Keep the k coordinates of largest magnitude. Among equals the earlier one is kept."""

    def compress(v: Array, u: Array) -> Array:  # noqa: ARG001 - not random
        kept = np.argsort(-np.abs(v), kind="stable")[:k]
        result = np.zeros_like(v)
        result[kept] = v[kept]
        return result

    return compress


def quantizer_xi(bits: int, dimension: int) -> float:
    s = 2.0 ** (bits - 1)
    return float(1.0 + min(dimension / s**2, np.sqrt(dimension) / s))


def quantizer(bits: int) -> Compressor:
    """C(v) = r * sign(v) * floor(s |v_c| / |v| + u), s = 2^(b-1), r = |v| / (xi s) as a float32."""
    s = 2.0 ** (bits - 1)

    def compress(v: Array, u: Array) -> Array:
        norm = np.linalg.norm(v)
        if norm == 0:
            return np.zeros_like(v)
        r = np.float64(np.float32(norm / (quantizer_xi(bits, v.size) * s)))
        result: Array = r * np.sign(v) * np.floor(s * np.abs(v) / norm + u)
        return result

    return compress


def run(
    W: Array,
    alpha: float,
    gamma: float,
    gradients: Callable[[Array], Array],
    compress: Compressor,
    x0: Array,
    eta_x: Array,
    eta_y: Array,
    u_x: Array,
    u_y: Array,
) -> History:
    """K rounds; `gradients` maps the stacked x to the stacked gradients, the noise is (K, n, d)."""
    x, y = x0.copy(), gradients(x0)
    xc, yc = np.zeros_like(x0), np.zeros_like(x0)
    states = [(x, y, xc, yc)]
    for k in range(len(eta_x)):
        xa, ya = x + eta_x[k], y + eta_y[k]
        xc = xc + _each_row(compress, xa - xc, u_x[k])
        yc = yc + _each_row(compress, ya - yc, u_y[k])
        x_next = xa + gamma * (W @ xc - xc) - alpha * y
        y = ya + gamma * (W @ yc - yc) + gradients(x_next) - gradients(x)
        x = x_next
        states.append((x, y, xc, yc))
    return History(*(np.stack(series) for series in zip(*states, strict=True)))


def _each_row(compress: Compressor, values: Array, dithers: Array) -> Array:
    return np.stack([compress(v, u) for v, u in zip(values, dithers, strict=True)])
