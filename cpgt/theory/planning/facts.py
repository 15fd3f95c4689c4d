"""The public facts that settings are chosen from. No data is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from cpgt.agent.errors import InputError
from cpgt.agent.objectives.counts import LARGEST_RATE
from cpgt.agent.privacy.gdp import mu_of
from cpgt.agent.privacy.oracle import RecordAdjacency
from cpgt.configuration.network import Network
from cpgt.tables.schema import Schema
from cpgt.topologies import Topology

CURVATURES = {"logistic": 0.25, "softmax": 0.5, "huber": 1.0, "least-squares": 2.0, "ridge": 2.0}
AGREEMENT = 0.6
MODEL_AGREEMENT = 0.3  # where each agent keeps its own x as a model: they differ by about 1 %


class Loss(NamedTuple):
    """Public facts about the loss of a record whose features have norm 1."""

    gradient: float  # its length at x = 0; for a regression, the most that it can be
    unit: float  # of |x|, times REACH


@dataclass(frozen=True, eq=False)
class PublicFacts:
    """All that settings are chosen from. None of it depends on the content of a record."""

    records: tuple[int, ...]  # of each agent; declared ones under add-remove
    features: int
    topology: Topology
    objective: str
    options: Mapping[str, Any]
    epsilon: float | None = None  # None: nothing is private
    delta: float | None = None
    adjacency: RecordAdjacency = "record"
    feature_bound: float = 1.0  # the largest norm of a record's features
    target_bound: float | None = None  # the largest |b_r| of a regression
    agreement: float = AGREEMENT  # the part of their differences that agents may keep in a step

    def __post_init__(self) -> None:
        agents = self.topology.graph.agents
        if len(self.records) != agents:
            raise InputError(f"{len(self.records)} counts of records for {agents} agents")
        if min(self.records) < 1 or self.features < 1:
            raise InputError("every agent needs at least 1 record, with at least 1 feature")

    @property
    def dimension(self) -> int:
        return self.features * (self.classes if self.objective == "softmax" else 1)

    @property
    def classes(self) -> int:
        return int(self.options.get("classes", 2))

    @property
    def weight(self) -> float:
        """The tracked average of gradients, over the gradient of the mean loss of all records."""
        return float(self.options.get("scale", 1.0)) * sum(self.records) / len(self.records)

    @property
    def budget(self) -> tuple[float, float]:
        """epsilon and delta, where there is privacy."""
        if self.epsilon is None or self.delta is None:
            raise InputError("privacy needs both epsilon and delta")
        return self.epsilon, self.delta

    @property
    def mu(self) -> float:
        mu = mu_of(*self.budget)
        if mu == 0:
            raise InputError(f"epsilon = {self.epsilon:g}, delta = {self.delta:g} allow nothing")
        return mu

    @property
    def loss(self) -> Loss:
        if self.objective == "logistic":
            return Loss(0.5, 1.0)
        if self.objective == "softmax":
            return Loss(math.sqrt(1 - 1 / self.classes), 1.0)
        if self.objective == "huber":
            threshold = float(self.options.get("threshold", 1.0))
            return Loss(min(threshold, self._target), self._target / 4)
        if self.objective == "poisson":
            return Loss(max(1.0, self._target - 1.0), 1.0)  # exp(0) - b
        if self.objective in ("least-squares", "ridge"):
            return Loss(2 * self._target, self._target / 4)
        raise self._unknown_loss()

    @property
    def curvature(self) -> float:
        """The largest second derivative of the loss of a record whose features have norm 1."""
        if self.objective == "poisson":
            return float(self.options.get("largest_rate", LARGEST_RATE))
        if self.objective not in CURVATURES:
            raise self._unknown_loss()
        return CURVATURES[self.objective]

    def _unknown_loss(self) -> InputError:
        return InputError(
            f"objective {self.objective!r}: the gradient of its records is not known here; choose "
            "clip and alpha by hand"
        )

    @property
    def largest_curvature(self) -> float:
        """L of the average f of all agents."""
        return self.weight * self.curvature * self.feature_bound**2 + self.l2

    @property
    def l2(self) -> float:
        return float(self.options.get("l2", 0.0))

    @property
    def _target(self) -> float:
        if self.target_bound is None:
            raise InputError(
                f"objective {self.objective!r} needs a target bound: the largest |b| of a record, "
                "known without looking at the data"
            )
        return self.target_bound


def facts_of(
    network: Network,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    records: tuple[int, ...] | None = None,
    features: int | None = None,
    feature_bound: float | None = None,
    target_bound: float | None = None,
) -> PublicFacts:
    """From the network file: a schema or a [synthetic] section tells the shape. Data files are not
    read, so the shape of other data must be given; their features have norm 1 unless told
    otherwise. Without epsilon, the facts are those of a run without noise."""
    synthetic, schema = network.synthetic, network.table_schema
    if schema:
        features, feature_bound = len(schema.feature_names), schema.row_bound
        records, target_bound = records or declared_records(network), target_bound_of(schema)
    elif synthetic and "rows" in synthetic.options:
        features = features or synthetic.dimension
        records = records or (int(synthetic.options["rows"]),) * len(network.agents)
        feature_bound = feature_bound or math.sqrt(features)  # the entries are N(0, 1)
    if records is None or features is None:
        missing = "counts of records" if records is None else "number of features"
        raise InputError(f"{network.name}: the {missing} is missing; data files are not read")
    declared = network.privacy.adjacency == "add-remove"
    return PublicFacts(
        records=records,
        features=features,
        topology=network.topology,
        objective=network.objective.kind,
        options=network.objective.options,
        epsilon=epsilon,
        delta=delta,
        adjacency="add-remove" if declared else "record",
        feature_bound=feature_bound or 1.0,
        target_bound=target_bound,
        agreement=MODEL_AGREEMENT if schema else AGREEMENT,
    )


def declared_records(network: Network) -> tuple[int, ...] | None:
    """Equal parts of what `scale` declares, which is agents / records for the mean over all."""
    if "scale" not in network.objective.options:
        return None
    each = max(1, round(1 / float(network.objective.options["scale"])))
    return (each,) * len(network.agents)


def target_bound_of(schema: Schema) -> float | None:
    """The largest target in the arrays: a number is mapped to [-1, 1], a count is not."""
    if schema.task == "classification":
        return None
    return float(schema.target.counts or 1)
