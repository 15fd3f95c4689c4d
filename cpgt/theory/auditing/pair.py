"""A pair of adjacent problems as different as the adjacency allows, and its exact privacy loss.

With S for the sensitivity: "function": f and f + <v, x> with |v| = S. "record": one record of the
data is replaced, and the gradient changes by at most S. In a regression an entry of b changes. If
records have labels, a row of A changes: the gradient of a record a is at most STEEPEST * scale *
|a| long, so the row -c a, which pulls the other way, is within S for
c = S / (STEEPEST * scale * |a|) - 1.

For fixed x^a and y^a the two states differ by Dx(k), Dy(k). For a quadratic f these are
deterministic:

    Dx(0) = 0, Dy(0) = v, Dx(k+1) = -alpha Dy(k), Dy(k+1) = H (Dx(k+1) - Dx(k))

Both alternate in sign, so that in the basis of eigenvectors of H their sizes follow the recursion
of the privacy account with an eigenvalue for L.

The log-likelihood ratio of any x^a, y^a is at most sum_k |Dx(k)|_1 / t_x + |Dy(k)|_1 / t_y, and
some attain it: this is the exact privacy loss of the pair. Without compression, x^a and y^a can be
read from the messages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Data, Objective, smoothness_of
from cpgt.agent.objectives.registry import build_objective
from cpgt.agent.privacy.account import next_differences
from cpgt.configuration.network import Network
from cpgt.theory.quadratics import hessians
from cpgt.wire.arrays import Floats

STARTS, STEPS = 16, 50
STEEPEST = {"logistic": 1.0, "softmax": math.sqrt(2.0)}
ObjectiveFactory: TypeAlias = Callable[[Data], Objective]


class Shifted:
    """f(x) + <v, x>."""

    def __init__(self, objective: Objective, v: Floats) -> None:
        self.dimension = objective.dimension
        self._objective, self._v = objective, v

    def gradient(self, x: Floats) -> Floats:
        return self._objective.gradient(x) + self._v


@dataclass(frozen=True, eq=False)
class Pair:
    """Two possible objectives of an agent, and v = grad second - grad first at 0."""

    first: Objective
    second: Objective
    v: Floats


@dataclass(frozen=True, eq=False)
class Divergence:
    """(K, d, d) matrices that map v to Dx(k) / t_x and Dy(k) / t_y, up to their sign."""

    x: Floats
    y: Floats

    def loss(self, v: Floats) -> float:
        """The exact privacy loss of the pair with this v."""
        return float(np.abs(self.x @ v).sum() + np.abs(self.y @ v).sum())

    def worst(self, sensitivity: float, rng: np.random.Generator) -> Floats:
        """A v of this length with a large loss: ascent on a convex function, several starts."""
        both, d = np.concatenate([self.x, self.y]), self.x.shape[-1]
        starts = [np.ones(d), *rng.choice([-1.0, 1.0], (STARTS - 1, d))]
        found = [_ascend(both, start) for start in starts]
        best: Floats = sensitivity * max(found, key=self.loss)
        return best


def _ascend(matrices: Floats, v: Floats) -> Floats:
    for _ in range(STEPS):
        uphill = np.einsum("kij,ki->j", matrices, np.sign(matrices @ v))
        length = np.linalg.norm(uphill)
        v = uphill / length if length else v
    return v / np.linalg.norm(v)


def divergence(objective: Objective, alpha: float, scales: Floats) -> Divergence | None:
    """For scales of shape (K, 2); None where f is not quadratic, or a channel has no noise."""
    if not (scales > 0).all():
        return None
    try:
        H = hessians([objective])[0]
    except ValueError:
        return None
    L, Q = np.linalg.eigh(H)
    along = [(np.zeros_like(L), np.ones_like(L))]  # |Dx(k)| and |Dy(k)| along each eigenvector
    for _ in range(len(scales) - 1):
        along.append(next_differences(*along[-1], alpha, L))
    over_scales = np.array(along) / scales[..., None]
    x, y = (Q * over_scales[:, channel, None] @ Q.T for channel in (0, 1))
    return Divergence(x, y)


def function_pair(
    objective: Objective, known: Divergence | None, sensitivity: float, rng: np.random.Generator
) -> Pair:
    d = objective.dimension
    v = known.worst(sensitivity, rng) if known else np.full(d, sensitivity / np.sqrt(d))
    return Pair(objective, Shifted(objective, v), v)


def record_pair(
    network: Network, data: Data, sensitivity: float, smoothness: float, rng: np.random.Generator
) -> Pair:
    """One record changed as far as sensitivity and L allow: that which moves the gradient most."""
    kind, options = network.objective.kind, network.objective.options
    make: ObjectiveFactory = partial(build_objective, kind, options)
    first = make(data)
    if kind in STEEPEST:
        others = _other_rows(data, sensitivity / (STEEPEST[kind] * options.get("scale", 1.0)))
    elif "b" in data:
        others = _other_numbers(make, data, sensitivity)
    else:
        raise InputError(
            "record adjacency is audited by changing a labelled row of A, or an entry of b"
        )
    zero = np.zeros(first.dimension)
    smooth = [f for f in map(make, others) if (smoothness_of(f) or 0.0) <= smoothness * (1 + 1e-9)]
    pairs = [Pair(first, second, _gap(first, second, zero)) for second in smooth]
    best = max(pairs, key=lambda pair: float(np.abs(pair.v).sum()), default=None)
    if best is None:
        raise InputError(
            f"record adjacency: no record can be changed so that the gradient changes by at most "
            f"{sensitivity:g} and L stays within {smoothness:g}; "
            "choose another --sensitivity or --smoothness"
        )
    for x in rng.normal(size=(8, first.dimension)):
        if np.linalg.norm(_gap(first, best.second, x)) > sensitivity * (1 + 1e-9):
            raise InputError(
                "changing a record changes the gradient by more than the sensitivity somewhere"
            )
    return best


def _other_numbers(make: ObjectiveFactory, data: Data, sensitivity: float) -> Iterator[Data]:
    """Each entry of b changed, so that the gradient at 0 changes by the sensitivity."""
    first = make(data)
    zero = np.zeros(first.dimension)
    for record in range(len(data["b"])):
        unit = float(np.linalg.norm(_gap(first, make(_changed(data, record, 1.0)), zero)))
        if unit > 0:
            yield _changed(data, record, sensitivity / unit)


def _other_rows(data: Data, allowed: float) -> Iterator[Data]:
    """Each row a of A replaced by -c a, with |a| + |c a| = allowed."""
    rows = np.array(data["A"], dtype=np.float64)
    for record, length in enumerate(np.linalg.norm(rows, axis=1)):
        if 0 < length <= allowed:
            changed = rows.copy()
            changed[record] *= 1 - allowed / length
            yield {**data, "A": changed}


def _changed(data: Data, record: int, by: float) -> Data:
    b = np.array(data["b"], dtype=np.float64)
    b[record] += by
    return {**data, "b": b}


def _gap(first: Objective, second: Objective, x: Floats) -> Floats:
    return second.gradient(x) - first.gradient(x)
