"""Every kind of every family, from its mathematics alone: an example, and a property to check.

Nothing of the project is imported. tests/test_families.py compares the project's kinds with these,
and fails for a kind that is missing here. An entry is (options, check). The comment above each
table has the arguments of a check.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tests.reference import cpgt, others
from tests.reference.cpgt import Array

Edges: TypeAlias = set[tuple[int, int]]
Table: TypeAlias = dict[str, tuple[dict[str, Any], Callable[..., Any]]]
Data: TypeAlias = dict[str, Array]


# --- graphs: check(agents, edges, **options), edges (i, j) with i < j, from 1 ---


def pairs(agents: int, joined: Callable[[int, int], bool]) -> Edges:
    """The pairs i < j of 0 .. agents - 1 that are joined, counted from 1."""
    every = [(i, j) for j in range(agents) for i in range(j)]
    return {(i + 1, j + 1) for i, j in every if joined(i, j)}


def degrees(agents: int, edges: Edges) -> list[int]:
    return [sum(agent in edge for edge in edges) for agent in range(1, agents + 1)]


def is_grid(n: int, edges: Edges, agents: int, rows: int) -> bool:
    columns = agents // rows
    places = [divmod(agent, columns) for agent in range(agents)]
    return n == agents and edges == pairs(n, lambda i, j: math.dist(places[i], places[j]) == 1)


def is_torus(n: int, edges: Edges, agents: int, rows: int) -> bool:
    columns = agents // rows
    points = [
        (*_on_circle(i // columns, rows), *_on_circle(i % columns, columns)) for i in range(n)
    ]
    nearest = min(math.dist(points[0], point) for point in points[1:])
    return n == agents and edges == pairs(
        n, lambda i, j: math.dist(points[i], points[j]) < 1.001 * nearest
    )


def _on_circle(step: int, steps: int) -> tuple[float, float]:
    """Neighbours on the circle are at the distance 1."""
    radius = 0.5 / math.sin(math.pi / steps)
    angle = 2 * math.pi * step / steps
    return radius * math.cos(angle), radius * math.sin(angle)


def is_erdos_renyi(n: int, edges: Edges, agents: int, probability: float) -> bool:
    """The number of edges is binomial: within 5 standard deviations."""
    most = n * (n - 1) / 2
    deviation = math.sqrt(most * probability * (1 - probability))
    return n == agents and abs(len(edges) - most * probability) < 5 * deviation


PAPER = {(1, 2), (1, 4), (1, 6), (2, 3), (2, 5), (3, 4), (4, 5), (5, 6)}
GRAPHS: Table = {
    "paper": ({}, lambda n, e: n == 6 and e == PAPER),
    "ring": ({"agents": 7}, lambda n, e, agents: e == pairs(7, lambda i, j: j - i in (1, 6))),
    "path": ({"agents": 7}, lambda n, e, agents: e == pairs(7, lambda i, j: j - i == 1)),
    "star": ({"agents": 7}, lambda n, e, agents: e == pairs(7, lambda i, j: i == 0)),
    "complete": ({"agents": 7}, lambda n, e, agents: e == pairs(7, lambda i, j: True)),
    "grid": ({"agents": 12, "rows": 3}, is_grid),
    "torus": ({"agents": 12, "rows": 3}, is_torus),
    "random-regular": (
        {"agents": 10, "degree": 4},
        lambda n, e, agents, degree: degrees(10, e) == [4] * 10,
    ),
    "erdos-renyi": ({"agents": 40, "probability": 0.3}, is_erdos_renyi),
    "small-world": (
        {"agents": 10, "degree": 4, "rewiring": 0.0},
        lambda n, e, **_: e == pairs(10, lambda i, j: min(j - i, 10 - j + i) <= 2),
    ),
    "edges": ({"edges": [[2, 1], [2, 3]]}, lambda n, e, edges: n == 3 and e == {(1, 2), (2, 3)}),
}

# --- weights: check(edges), which gives W ---


def metropolis(edges: Edges) -> Array:
    n = max(max(edge) for edge in edges)
    degree = degrees(n, edges)
    W = np.eye(n)
    for i, j in edges:
        laplacian = np.zeros((n, n))
        laplacian[[i - 1, j - 1, i - 1, j - 1], [i - 1, j - 1, j - 1, i - 1]] = 1, 1, -1, -1
        W -= laplacian / (1 + max(degree[i - 1], degree[j - 1]))
    return W


def max_degree(edges: Edges) -> Array:
    n = max(max(edge) for edge in edges)
    adjacency = np.array([[float((min(i, j), max(i, j)) in edges) for i in range(1, n + 1)]
                          for j in range(1, n + 1)])  # fmt: skip
    laplacian = np.diag(adjacency.sum(axis=0)) - adjacency
    result: Array = np.eye(n) - laplacian / (1 + adjacency.sum(axis=0).max())
    return result


WEIGHTS: Table = {
    "metropolis": ({}, metropolis),
    "max-degree": ({}, max_degree),
    "lazy": ({}, lambda edges: (np.eye(len(metropolis(edges))) + metropolis(edges)) / 2),
}

# --- compressors: check(C(v), v, u, **options), u the dithers ---


def is_random_k(c: Array, v: Array, u: Array, k: int) -> bool:
    kept = c != 0
    return int(kept.sum()) == k and np.array_equal(c[kept], v[kept])


def natural(v: Array) -> Array:
    powers = np.sign(v)[:, None] * 2.0 ** np.arange(-60, 60)
    nearest: Array = np.take_along_axis(
        powers, np.abs(powers - v[:, None]).argmin(axis=1)[:, None], axis=1
    )[:, 0]
    return nearest


def top_k_quantized(v: Array, u: Array, k: int, bits: int) -> Array:
    kept = np.sort(np.argsort(-np.abs(v), kind="stable")[:k])
    result = np.zeros_like(v)
    result[kept] = cpgt.quantizer(bits)(v[kept], u[kept])
    return result


def in_buckets(v: Array, u: Array, bits: int, bucket: int) -> Array:
    """The last bucket is filled up with zeros, which count in its dimension."""
    filled = -(-v.size // bucket) * bucket
    rows = [np.pad(a, (0, filled - v.size)).reshape(-1, bucket) for a in (v, u)]
    return np.concatenate([cpgt.quantizer(bits)(*row) for row in zip(*rows, strict=True)])[: v.size]


COMPRESSORS: Table = {
    "identity": ({}, lambda c, v, u: np.array_equal(c, v)),
    "top-k": ({"k": 3}, lambda c, v, u, k: np.array_equal(c, cpgt.top_k(k)(v, u))),
    "random-k": ({"k": 3}, is_random_k),
    "sign": ({}, lambda c, v, u: np.allclose(c, np.abs(v).mean() * np.sign(v), rtol=1e-7)),
    "natural": ({}, lambda c, v, u: np.array_equal(c, natural(v))),
    "quantize": (
        {"bits": 4, "bucket": 4},
        lambda c, v, u, **o: np.allclose(c, in_buckets(v, u, **o)),
    ),
    "top-k-quantize": (
        {"k": 5, "bits": 4},
        lambda c, v, u, **o: np.allclose(c, top_k_quantized(v, u, **o)),
    ),
    "quantize-unbiased": (
        {"bits": 4},
        lambda c, v, u, bits: np.allclose(c, others.unbiased_quantizer(bits)(v, u)),
    ),
}

# --- objectives: check(x, data, **options), which gives f(x); data as in DATA ---

RNG = np.random.default_rng(1)
A, B = RNG.standard_normal((6, 4)), RNG.standard_normal(6)
LABELS = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0])
H = A.T @ A
WEIGHTS_OF_RECORDS = np.array([1.0, 0.25, 0.0, 0.5, 1.0, 0.75])
DATA: Data = {"A": A, "b": B, "labels": LABELS, "weights": WEIGHTS_OF_RECORDS}
COUNTS = np.array([0.0, 3.0, 1.0, 0.0, 7.0, 2.0])
COUNT_DATA: Data = {"A": A, "b": COUNTS, "weights": WEIGHTS_OF_RECORDS}
QUADRATIC_DATA: Data = {"H": H, "b": B[:4]}


def weighted(losses: Array, x: Array, scale: float, l2: float, intercept: bool) -> float:
    """Of records with weights. An intercept, the last of each class, is not in the penalty."""
    penalised = x.reshape(-1, A.shape[1])[:, : A.shape[1] - intercept]
    return float(scale * WEIGHTS_OF_RECORDS @ losses + l2 / 2 * np.sum(penalised**2))


def least_squares(x: Array, scale: float = 1.0, l2: float = 0.0, intercept: bool = False) -> float:
    return weighted((A @ x - B) ** 2, x, scale, l2, intercept)


def huber(x: Array, threshold: float, l2: float, scale: float, intercept: bool) -> float:
    t = np.abs(A @ x - B)
    h = np.where(t <= threshold, t**2 / 2, threshold * (t - threshold / 2))
    return weighted(h, x, scale, l2, intercept)


def poisson(x: Array, largest_rate: float, l2: float, scale: float, intercept: bool) -> float:
    t, last = A @ x, math.log(largest_rate)
    rates = np.where(t <= last, np.exp(t), largest_rate * (1 + t - last))
    return weighted(rates - COUNTS * t, x, scale, l2, intercept)


def softmax(x: Array, classes: int, l2: float, scale: float, intercept: bool) -> float:
    scores = A @ x.reshape(classes, -1).T
    chosen = scores[np.arange(len(A)), LABELS.astype(int)]
    return weighted(np.log(np.exp(scores).sum(axis=1)) - chosen, x, scale, l2, intercept)


def logistic(x: Array, l2: float, scale: float, intercept: bool) -> float:
    return weighted(np.log1p(np.exp(-(2 * LABELS - 1) * (A @ x))), x, scale, l2, intercept)


OBJECTIVES: Table = {
    "least-squares": ({"scale": 0.5}, least_squares),
    "ridge": ({"l2": 0.3, "scale": 0.5, "intercept": True}, least_squares),
    "huber": ({"threshold": 0.5, "l2": 0.3, "scale": 0.5, "intercept": True}, huber),
    "poisson": ({"largest_rate": 4.0, "l2": 0.3, "scale": 0.5, "intercept": True}, poisson),
    "logistic": ({"l2": 0.3, "scale": 0.5, "intercept": True}, logistic),
    "softmax": ({"classes": 2, "l2": 0.3, "scale": 0.5, "intercept": True}, softmax),
    "quadratic": ({}, lambda x: float(x @ H @ x / 2 - B[:4] @ x)),
    "idle": ({"dimension": 4}, lambda x, dimension: 0.0),
}

# --- algorithms: check(W, alpha, gradients, x0, rounds, **options), which gives x(0 .. rounds) ---
# Without noise, uncompressed, gamma = 1. tests/agent compares with noise and compression.


def tracking(W: Array, alpha: float, g: others.Gradients, x: Array, rounds: int) -> Array:
    silent = np.zeros((rounds, *x.shape))
    return cpgt.run(W, alpha, 1.0, g, cpgt.identity, x, silent, silent, silent, silent).x


def compressed_tracking(
    W: Array, alpha: float, g: others.Gradients, x: Array, rounds: int, **damping: float
) -> Array:
    silent = np.zeros((rounds, *x.shape))
    both = (damping["damping_x"], damping["damping_y"])
    return others.compressed_gradient_tracking(
        W, alpha, 1.0, both, g, cpgt.identity, x, silent, silent
    )


ALGORITHMS: Table = {
    "cpgt": ({}, tracking),
    "diadsp": ({}, tracking),
    "gradient-tracking": ({}, tracking),
    "compressed-gradient-tracking": ({"damping_x": 0.9, "damping_y": 0.8}, compressed_tracking),
    "quantized-gradient-tracking": (
        {"bits": 6, "range": 20.0, "shrink": 0.98},
        lambda W, a, g, x, n, bits, range, shrink: others.shrinking_range(  # noqa: A006
            W, a, 1.0, bits, range, shrink, g, x, n
        ),
    ),
    "extra": ({}, lambda W, a, g, x, n: others.extra(W, a, g, x, n)),
    "gradient-descent": (
        {"decay": 0.1},
        lambda W, a, g, x, n, decay: others.gradient_descent(W, a, decay, g, x, n),
    ),
    "choco": (
        {"decay": 0.1},
        lambda W, a, g, x, n, decay: others.choco(
            W, a, decay, 1.0, g, cpgt.identity, x, np.zeros((n, *x.shape))
        ),
    ),
    "private-gradient-descent": (
        {"step_decay": 0.9, "radius": 2.0},
        lambda W, a, g, x, n, step_decay, radius: others.private_gradient_descent(
            W, a, step_decay, radius, g, x, np.zeros((n, *x.shape))
        ),
    ),
}

# --- synthetic data: check(data of each agent, **options), in 5 dimensions ---


def is_standard_normal(values: Array) -> bool:
    """Mean 0 and variance 1, within 5 standard deviations of their estimates."""
    n = values.size
    mean, variance = float(values.mean()), float(values.var())
    return abs(mean) < 5 / math.sqrt(n) and abs(variance - 1) < 5 * math.sqrt(2 / n)


def is_gaussian(data: list[Data], rows: int) -> bool:
    A, b = np.array([one["A"] for one in data]), np.array([one["b"] for one in data])
    return A.shape[1:] == (rows, 5) and is_standard_normal(A) and is_standard_normal(b)


def is_regression(data: list[Data], rows: int, noise: float) -> bool:
    """One x explains all agents' b, up to errors of the given size."""
    A, b = np.vstack([one["A"] for one in data]), np.concatenate([one["b"] for one in data])
    errors = b - A @ np.linalg.lstsq(A, b)[0]
    return len(data[0]["b"]) == rows and is_standard_normal(errors / noise)


def is_classification(data: list[Data], rows: int, classes: int) -> bool:
    """Every label occurs, and a linear classifier is right for more than 60 % of the rows."""
    A, labels = (np.concatenate([one[name] for one in data]) for name in ("A", "labels"))
    wanted = np.eye(classes)[labels.astype(int)]
    guesses = np.argmax(A @ np.linalg.lstsq(A, wanted)[0], axis=1)
    right = float(np.mean(guesses == labels))
    return len(labels) == rows * len(data) and set(labels) == set(range(classes)) and right > 0.6


def is_counts(data: list[Data], rows: int) -> bool:
    """Whole numbers whose mean is that of exp(t) with t ~ N(0, 1), and one x explains them: the
    moments E[b a] = E[exp(a x)] x of all agents have that length, too."""
    A, b = np.vstack([one["A"] for one in data]), np.concatenate([one["b"] for one in data])
    mean, error = math.exp(0.5), 5 * math.sqrt((math.exp(2) + math.exp(0.5)) / len(b))
    whole = bool(np.all(b >= 0)) and np.array_equal(b, np.rint(b))
    along = float(np.linalg.norm(A.T @ b) / len(b))
    return (
        len(data[0]["b"]) == rows and whole and max(abs(b.mean() - mean), abs(along - mean)) < error
    )


def is_quadratic(data: list[Data], condition: float) -> bool:
    """All are diagonal in one basis, and their average has the requested eigenvalues."""
    average = np.mean([one["H"] for one in data], axis=0)
    return np.allclose(np.log(average), -np.linspace(0, math.log(condition), 5))


SYNTHETIC: Table = {
    "gaussian": ({"rows": 200}, is_gaussian),
    "regression": ({"rows": 200, "noise": 0.3}, is_regression),
    "classification": ({"rows": 200, "classes": 2}, is_classification),
    "counts": ({"rows": 2000}, is_counts),
    "quadratic": ({"condition": 30.0}, is_quadratic),
}

FAMILIES: dict[str, Table] = {
    "algorithm": ALGORITHMS,
    "graph": GRAPHS,
    "weights": WEIGHTS,
    "compressor": COMPRESSORS,
    "objective": OBJECTIVES,
    "synthetic": SYNTHETIC,
}
