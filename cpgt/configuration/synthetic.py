"""Synthetic data, by kind. The same seed gives the same data.

Every agent has its own random generator. A second one, with the same state for all agents, draws
what they have in common.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np

from cpgt.agent.objectives.classification import MAX_CLASSES
from cpgt.agent.objectives.quadratic import Quadratic
from cpgt.bounds import MAX_SIZE, Bounds, Fraction, NonNegative, Size
from cpgt.wire.arrays import Floats

Arrays = dict[str, Floats]
Rows: TypeAlias = Annotated[Size, "Records of each agent."]
Heterogeneity: TypeAlias = Annotated[NonNegative, "How much agents differ; 0: not at all."]


class Draw(NamedTuple):
    """The random generators of one agent, and its place among the others."""

    own: np.random.Generator
    common: np.random.Generator
    agent: int  # from 1
    agents: int


def draw_for(seed: int, agent: int, agents: int) -> Draw:
    return Draw(np.random.default_rng((seed, agent)), np.random.default_rng(seed), agent, agents)


def gaussian(draw: Draw, dimension: int, rows: Rows) -> Arrays:
    """A and b with independent N(0, 1) entries: the paper's."""
    A = draw.own.standard_normal((rows, dimension))
    return {"A": A, "b": draw.own.standard_normal(rows)}


def regression(
    draw: Draw,
    dimension: int,
    rows: Rows,
    noise: Annotated[NonNegative, "Standard deviation of the errors of b."] = 0.1,
    outliers: Annotated[Fraction, "Part of b that is far off."] = 0.0,
    heterogeneity: Heterogeneity = 0.0,
) -> Arrays:
    """b = A x + N(0, noise^2), where a fraction of b, the outliers, is off by N(0, 10^2).

    x is common to all agents, plus heterogeneity times an N(0, 1) vector of each agent."""
    A = draw.own.standard_normal((rows, dimension))
    x = draw.common.standard_normal(dimension) + heterogeneity * draw.own.standard_normal(dimension)
    errors = noise * draw.own.standard_normal(rows)
    errors += (draw.own.random(rows) < outliers) * 10.0 * draw.own.standard_normal(rows)
    return {"A": A, "b": A @ x + errors}


def classification(
    draw: Draw,
    dimension: int,
    rows: Rows,
    classes: Annotated[int, Bounds(ge=2, le=MAX_CLASSES), "Number of labels."] = 2,
    heterogeneity: Heterogeneity = 0.0,
) -> Arrays:
    """Labels drawn from the softmax of A x_c, with a common vector x_c for each class.

    Features are N(0, 1), around 0 or, with heterogeneity, around a centre that differs between
    agents, so that they see the classes in different proportions."""
    weights = draw.common.standard_normal((classes, dimension))
    centre = heterogeneity * draw.own.standard_normal(dimension)
    A = centre + draw.own.standard_normal((rows, dimension))
    # the index of the largest of scores + gumbel is distributed as the softmax of the scores
    gumbel = draw.own.gumbel(size=(rows, classes))
    return {"A": A, "labels": np.argmax(A @ weights.T + gumbel, axis=1).astype(np.float64)}


def counts(draw: Draw, dimension: int, rows: Rows, heterogeneity: Heterogeneity = 0.0) -> Arrays:
    """Counts b with the Poisson distribution of the rate exp(A x), where A x is N(0, 1).

    x is common to all agents, plus heterogeneity times a vector of each agent."""
    A = draw.own.standard_normal((rows, dimension))
    common, own = draw.common.standard_normal(dimension), draw.own.standard_normal(dimension)
    x = common / np.linalg.norm(common) + heterogeneity * own / np.linalg.norm(own)
    return {"A": A, "b": draw.own.poisson(np.exp(A @ x)).astype(np.float64)}


def quadratic(
    draw: Draw,
    dimension: int,
    condition: Annotated[float, Bounds(ge=1), "Condition number of the average Hessian."] = 10.0,
    heterogeneity: Heterogeneity = 1.0,
) -> Arrays:
    """An average Hessian with eigenvalues from 1 / condition to 1, evenly spread as logarithms.

    Eigenvectors are common, and mix all coordinates. With heterogeneity h, the agents' curvatures
    differ by factors exp(h N(0, 1)), scaled to keep the average, and their minimisers by vectors
    h N(0, 1)."""
    d = dimension
    average = np.geomspace(1.0, 1.0 / condition, d) if d > 1 else np.ones(1)
    signs = draw.common.choice([-1.0, 1.0], d)
    minimiser = draw.common.standard_normal(d)
    factors = np.exp(heterogeneity * draw.common.standard_normal((draw.agents, d)))
    curvatures = average * factors[draw.agent - 1] / factors.mean(axis=0)
    own_minimiser = minimiser + heterogeneity * draw.own.standard_normal(d)
    b = Quadratic(curvatures, np.zeros(d), signs).gradient(own_minimiser)
    return {"H": curvatures, "b": b, "signs": signs}


def require_moderate(
    dimension: int, agents: int, rows: int = 1, classes: int = 2, **_others: Any
) -> None:
    """Raise ValueError if an array of one agent would have more than MAX_SIZE numbers."""
    numbers = max(rows * dimension, rows * classes, classes * dimension, agents * dimension)
    if numbers > MAX_SIZE:
        raise ValueError(
            f"synthetic: an array of {numbers:,} numbers is more than {MAX_SIZE:,}; "
            "choose fewer rows or a smaller dimension"
        )


GENERATORS: dict[str, Callable[..., Arrays]] = {
    "gaussian": gaussian,
    "regression": regression,
    "classification": classification,
    "counts": counts,
    "quadratic": quadratic,
}

# the kinds that make data for an objective
FITTING: dict[str, tuple[str, ...]] = {
    "least-squares": ("gaussian", "regression"),
    "ridge": ("gaussian", "regression"),
    "huber": ("gaussian", "regression"),
    "poisson": ("counts",),
    "logistic": ("classification",),
    "softmax": ("classification",),
    "quadratic": ("quadratic",),
}
