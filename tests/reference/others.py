"""The other algorithms in textbook form, independent oracles for the project's implementations.

All agents are stacked: arrays (n, d), one row an agent. Nothing of the project is imported, and
random numbers are arguments (K, n, d). Each function returns x at k = 0 .. K.
"""

from collections.abc import Callable

import numpy as np

from tests.reference.cpgt import Array, Compressor

Gradients = Callable[[Array], Array]


def gradient_descent(
    W: Array, alpha: float, decay: float, g: Gradients, x: Array, rounds: int
) -> Array:
    xs = [x]
    for k in range(rounds):
        x = W @ x - alpha / (1 + decay * k) * g(x)
        xs.append(x)
    return np.array(xs)


def extra(W: Array, alpha: float, g: Gradients, x: Array, rounds: int) -> Array:
    identity = np.eye(len(W))
    xs = [x, W @ x - alpha * g(x)]
    for _ in range(rounds - 1):
        before, now = xs[-2:]
        xs.append((identity + W) @ now - (identity + W) / 2 @ before - alpha * (g(now) - g(before)))
    return np.array(xs)


def choco(
    W: Array,
    alpha: float,
    decay: float,
    gamma: float,
    g: Gradients,
    C: Compressor,
    x: Array,
    u: Array,
) -> Array:
    reference = np.zeros_like(x)
    xs = [x]
    for k, dithers in enumerate(u):
        half = x - alpha / (1 + decay * k) * g(x)
        reference = reference + _rows(C, half - reference, dithers)
        x = half + gamma * (W - np.eye(len(W))) @ reference
        xs.append(x)
    return np.array(xs)


def compressed_gradient_tracking(
    W: Array,
    alpha: float,
    gamma: float,
    damping: tuple[float, float],
    g: Gradients,
    C: Compressor,
    x: Array,
    u_x: Array,
    u_y: Array,
    every: int = 1,
    momentum: float = 0.0,
) -> Array:
    """The sums H_w = W H are stored separately, as in the authors' formulation."""
    y, evaluated, velocity = g(x), x, np.zeros_like(x)
    (h_x, h_y), (hw_x, hw_y) = np.zeros((2, *x.shape)), np.zeros((2, *x.shape))
    xs = [x]
    for k in range(len(u_x)):
        q_x, q_y = _rows(C, x - h_x, u_x[k]), _rows(C, y - h_y, u_y[k])
        hat_x, hat_y = h_x + q_x, h_y + q_y
        hatw_x, hatw_y = hw_x + W @ q_x, hw_y + W @ q_y
        h_x, h_y = (
            (1 - a) * h + a * hat
            for a, h, hat in zip(damping, (h_x, h_y), (hat_x, hat_y), strict=True)
        )
        hw_x, hw_y = (
            (1 - a) * h + a * hat
            for a, h, hat in zip(damping, (hw_x, hw_y), (hatw_x, hatw_y), strict=True)
        )
        mixed_y = y - gamma * (hat_y - hatw_y)
        x = x - gamma * (hat_x - hatw_x)
        if k % every == every - 1:
            velocity = momentum * velocity + (y if every == 1 else mixed_y)
            x = x - alpha * velocity
            mixed_y = mixed_y + g(x) - g(evaluated)
            evaluated = x
        y = mixed_y
        xs.append(x)
    return np.array(xs)


def shrinking_range(
    W: Array,
    alpha: float,
    gamma: float,
    bits: int,
    width: float,
    shrink: float,
    g: Gradients,
    x: Array,
    rounds: int,
) -> Array:
    y, L = g(x), W - np.eye(len(W))
    x_reference, y_reference = np.zeros_like(x), np.zeros_like(x)
    xs = [x]
    for k in range(rounds):
        spacing = float(np.float32(width * shrink**k / 2 ** (bits - 1)))
        grid = np.arange(-(2 ** (bits - 1)), 2 ** (bits - 1) + 1) * spacing
        x_reference = x_reference + _nearest(grid, x - x_reference)
        y_reference = y_reference + _nearest(grid, y - y_reference)
        before, x = x, x + gamma * L @ x_reference - alpha * y
        y = y + gamma * L @ y_reference + g(x) - g(before)
        xs.append(x)
    return np.array(xs)


def private_gradient_descent(
    W: Array, alpha: float, step_decay: float, radius: float, g: Gradients, x: Array, eta: Array
) -> Array:
    x = _into_ball(x, radius)
    xs = [x]
    for k, noise in enumerate(eta):
        z = W @ (x + noise)
        x = _into_ball(z - alpha * step_decay**k * g(z), radius)
        xs.append(x)
    return np.array(xs)


def unbiased_quantizer(bits: int) -> Compressor:
    """Rounds to a multiple of |v|_max / 2^(b-1), a float32: of the two nearest multiples the one
    farther from 0 if u >= 1 - (fraction of the spacing), otherwise the other."""

    def compress(v: Array, u: Array) -> Array:
        spacing = float(np.float32(np.abs(v).max() / 2 ** (bits - 1)))
        if spacing == 0:
            return np.zeros_like(v)
        below = np.floor(np.abs(v) / spacing)
        result: Array = np.sign(v) * spacing * (below + (u >= 1 - (np.abs(v) / spacing - below)))
        return result

    return compress


def _rows(compress: Compressor, values: Array, dithers: Array) -> Array:
    return np.stack([compress(v, u) for v, u in zip(values, dithers, strict=True)])


def _nearest(grid: Array, values: Array) -> Array:
    nearest: Array = grid[np.abs(values[..., None] - grid).argmin(axis=-1)]
    return nearest


def _into_ball(x: Array, radius: float) -> Array:
    return np.stack(
        [row * min(1.0, radius / np.linalg.norm(row)) if row.any() else row for row in x]
    )
