"""Two data sets that differ in one record, as far apart as clipping lets them be.

The mechanism clips the gradient of a record to the length C, so the worst pair of records has
gradients of at least that length in opposite directions. With u = (1, ..., 1) / sqrt(features):

| data                 | record        | in its place   | gradients at x with <u, x> = 0     |
|----------------------|---------------|----------------|------------------------------------|
| rows A and labels    | row reach C u | row -reach C u | reach C / 2 long or more, opposite |
| rows A and numbers b | row u, b = h  | row u, b = -h  | 2 h long, with h = reach C         |
| of an own objective  | a record      | another record | the two that differ most at x = 0  |

If a record may be added or removed, the second data set lacks the record.

A longer row exceeds C by more, which shows a clip that is missing. A shorter one stays above C at
more points x: reach 4.6 does for the largest |<u, x>|, which is log(3.6) / (4.6 C).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Data, RecordObjective, require_records
from cpgt.agent.objectives.registry import build_objective
from cpgt.agent.privacy.clipping import clipped_sum
from cpgt.agent.privacy.oracle import GradientTerms
from cpgt.configuration.network import Network
from cpgt.wire.arrays import Floats

Record: TypeAlias = Mapping[str, Any]
FAR, TOLERANT = 20.0, 4.6  # reach
OTHERS = 49  # the attacker knows them and subtracts them: more make no difference
NEARLY = 0.97  # of the largest difference
SMALLEST, LARGEST, HALVINGS = 1e-6, 1e6, 50
GROWTH = 1.04  # a gradient 2 (x - FAR C) is shorter than C on a stretch of 5 % of FAR C


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
    kind, options = network.objective.kind, network.objective.options
    make = partial(build_objective, kind, options)
    records = require_records(make(data)).records
    tables = {name: np.asarray(a)[: OTHERS + 1] for name, a in data.items() if np.ndim(a)}
    tables = {name: a for name, a in tables.items() if len(data[name]) == records}

    def with_record(record: Mapping[str, Any]) -> RecordObjective:
        return require_records(make({**data, **tables, **_replaced(tables, record)}))

    without = {**data, **{name: a[1:] for name, a in tables.items()}}
    pairs = [
        RecordPair(
            with_record(one),
            with_record(other) if terms.adjacency == "record" else require_records(make(without)),
            terms.clip,
        )
        for one, other in _candidates(tables, reach * terms.clip)
    ]
    if not pairs:
        raise InputError("the audit changes one record of the data, but the data has none")
    return max(pairs, key=lambda pair: pair.distance(np.zeros(pair.first.dimension)))


def _candidates(tables: Data, length: float) -> Iterator[tuple[Record, Record]]:
    """Pairs of records. What a record does not name is that of record 0."""
    if "A" in tables and {"labels", "b"} & set(tables):
        features = tables["A"].shape[1]
        u = np.ones(features) / np.sqrt(features)
        if "labels" in tables:
            yield {"A": length * u}, {"A": -length * u}
        else:
            yield {"A": u, "b": length}, {"A": u, "b": -length}
        return
    rows = len(next(iter(tables.values()), ()))
    for i in range(1, rows):
        yield {}, {name: a[i] for name, a in tables.items()}


def _replaced(tables: Data, record: Record) -> Data:
    """The tables that the record names, with the record in their first row."""
    rows = {name: np.asarray(value)[None] for name, value in record.items()}
    return {name: np.concatenate([row, tables[name][1:]]) for name, row in rows.items()}


def two_points(pair: RecordPair) -> tuple[Floats, Floats]:
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
