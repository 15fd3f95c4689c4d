"""Two data sets that differ in one record, as far apart as clipping lets them be.

The mechanism clips the gradient of a record to the length C, so the worst pair of records has
gradients of at least that length in opposite directions. With u = (1, ..., 1) / sqrt(features):

| data                 | record        | in its place   | gradients at x with <u, x> = 0     |
|----------------------|---------------|----------------|------------------------------------|
| rows A and labels    | row reach C u | row -reach C u | reach C / 2 long or more, opposite |
| rows A and numbers b | row reach C u | the same row,  | reach C long or more, opposite;    |
|                      | and b = 1     | and b = -1     | a longer row if a loss is flatter  |
| of an own objective  | a record      | another record | the two that differ most at x = 0  |

If a record may be added or removed, the second data set lacks the record.

A longer row exceeds C by more, which shows a clip that is missing. A shorter one stays above C at
more points x: reach 4.6 does for the largest |<u, x>|, which is log(3.6) / (4.6 C).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Data, RecordObjective, require_records
from cpgt.agent.objectives.registry import build_objective
from cpgt.agent.privacy.clipping import clipped_sum
from cpgt.agent.privacy.oracle import GradientTerms
from cpgt.configuration.network import Network
from cpgt.wire.arrays import Floats

Tables: TypeAlias = dict[str, NDArray[Any]]
Record: TypeAlias = dict[str, Any]  # a row of each table
TwoPoints: TypeAlias = tuple[Floats, Floats]
FAR, TOLERANT = 20.0, 4.6  # reach
OTHERS = 49
STEEP = 1000.0  # for the Huber loss, whose slope may be limited to less than 1
NEARLY = 0.97  # of the largest difference
SMALLEST, LARGEST, HALVINGS = 1e-6, 1e6, 50
GROWTH = 1.04  # of squared errors, the gradient is shorter than C on 5 % of the way to 1 / (FAR C)


class RecordPair(NamedTuple):
    first: RecordObjective
    second: RecordObjective
    clip: float

    def sums(self, x: Floats) -> tuple[Floats, Floats]:
        """sum_r v_r of the first data set, and what the second one adds to it."""
        first, second = (clipped_sum(f, x, self.clip) for f in (self.first, self.second))
        return first.astype(np.float64), (second - first).astype(np.float64)

    def distance(self, x: Floats) -> float:
        return float(np.linalg.norm(self.sums(x)[1]))


def worst_pair(network: Network, data: Data, terms: GradientTerms, reach: float) -> RecordPair:
    """The data of one agent with one record changed: the worst pair that is tried."""

    def build(data: Data) -> RecordObjective:
        kind, options = network.objective.kind, network.objective.options
        return require_records(build_objective(kind, options, data))

    tables = record_tables(data, build(data).records)
    without = {name: a[1:] for name, a in tables.items()}
    pairs = [
        RecordPair(
            build({**data, **with_record(tables, **one)}),
            build({**data, **(without if removed else with_record(tables, **other))}),
            terms.clip,
        )
        for removed in [terms.adjacency == "add-remove"]
        for one, other in _candidates(network.objective.kind, tables, reach * terms.clip)
    ]
    if not pairs:
        raise InputError("the audit changes one record of the data, but the data has none")
    return max(pairs, key=lambda pair: pair.distance(np.zeros(pair.first.dimension)))


def record_tables(data: Data, records: int) -> Tables:
    """The arrays with a row for each record, and of them the first rows: other records are known to
    the adversary, who subtracts them, so fewer make no difference."""
    tables = {name: a for name, a in data.items() if np.ndim(a) and len(a) == records}
    return {name: np.asarray(a)[: OTHERS + 1] for name, a in tables.items()}


def with_record(tables: Tables, **record: Any) -> Tables:
    """The first record replaced by what is given of it. It has the largest weight, 1."""
    if "weights" in tables:
        record = {"weights": 1.0, **record}
    rows = {name: np.asarray(value)[None] for name, value in record.items()}
    changed = {name: np.concatenate([row, tables[name][1:]]) for name, row in rows.items()}
    return {**tables, **changed}


def unit_row(tables: Tables) -> Floats:
    """u"""
    features = tables["A"].shape[1]
    return np.full(features, 1 / np.sqrt(features))


def _candidates(kind: str, tables: Tables, length: float) -> Iterator[tuple[Record, Record]]:
    """Pairs of records. What a record does not name is that of the first record."""
    if "A" in tables and "labels" in tables:
        yield {"A": length * unit_row(tables)}, {"A": -length * unit_row(tables)}
    elif "A" in tables and "b" in tables:
        for row in (length * unit_row(tables), STEEP * length * unit_row(tables)):
            one, other = (0.0, 2.0) if kind == "poisson" else (1.0, -1.0)  # opposite slopes at 0
            yield {"A": row, "b": one}, {"A": row, "b": other}
    else:
        rows = len(next(iter(tables.values()), ()))
        for i in range(1, rows):
            yield {}, {name: a[i] for name, a in tables.items()}


def two_points(pair: RecordPair) -> TwoPoints:
    """Two questions: 0, and a point where one of the gradients is just short enough not to be
    clipped. The sums differ by a few per cent less there, so noise that is used for both shows."""
    origin = np.zeros(pair.first.dimension)
    apart = pair.sums(origin)[1]
    u = apart / max(float(np.linalg.norm(apart)), 1.0)
    found = (_shorter(pair, sign * u, NEARLY * pair.distance(origin)) for sign in (1.0, -1.0))
    return origin, next((point for point in found if point is not None), origin)


def _shorter(pair: RecordPair, u: Floats, length: float) -> Floats | None:
    """The point on the way from 0 along u where the sums come within this distance."""
    near, far = 0.0, SMALLEST
    while pair.distance(far * u) > length:
        near, far = far, GROWTH * far
        if far > LARGEST:
            return None
    for _ in range(HALVINGS):
        middle = (near + far) / 2
        near, far = (middle, far) if pair.distance(middle * u) > length else (near, middle)
    return far * u
