"""The network file as the coordinator needs it: everything public about a run, typed and checked.

What is private (data, secrets) is not in it, except for a pattern that says where each agent keeps
its data. Sections that only agents act on are carried as they are, so that no agent code is loaded
here; `cpgt.configuration.network` checks them, too.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgpack
import tomli_w
from pydantic import AfterValidator, Field, model_validator

from cpgt.bounds import Bounds, Count, NonNegative, Positive, PositiveFraction
from cpgt.configuration.kinds import Kinds, KindSection, Section
from cpgt.topologies import GRAPHS, WEIGHTS, Topology, TopologyError, given_weights
from cpgt.wire.keys import is_key

# the algorithms with noise that exchange x alone, so that noise.s_y is 0
NOISE_ON_X_ALONE = ("private-gradient-descent",)


class AlgorithmSection(KindSection):
    """The algorithm that all agents run."""

    kind: str = "cpgt"
    alpha: Annotated[Positive, "Step along the gradient."]
    gamma: Annotated[PositiveFraction, "Step of mixing."] = 1.0


class WeightsSection(KindSection):
    """The weight matrix W on the graph."""

    kind: str = "metropolis"
    matrix: Annotated[list[list[float]] | None, "W row by row, instead of a kind."] = None


class SyntheticSection(KindSection):
    """Data made up for an experiment."""

    kind: str = "gaussian"
    dimension: Annotated[Count, "Number of features of a record."]
    seed: Annotated[int, Bounds(ge=0), "The same seed gives the same data."]


class AgentNoise(Section):
    """The noise of one agent, where it differs from the others'."""

    s_x: NonNegative | None = None
    s_y: NonNegative | None = None
    q: PositiveFraction | None = None
    floor: Positive | None = None


class NoiseSection(Section):
    """Laplace noise on what is sent: scale s_x q^k on x and s_y q^k on y in round k."""

    s_x: Annotated[NonNegative, "Scale of the noise on x in round 0."] = 0.0
    s_y: Annotated[NonNegative, "Scale of the noise on y in round 0."] = 0.0
    q: Annotated[PositiveFraction, "Decay of both scales from round to round."] = 1.0
    floor: Annotated[
        Positive | None, "Neither scale falls below this. [2^-40 of the smaller scale]"
    ] = None
    agents: Annotated[
        dict[int, AgentNoise], "`[noise.agents.N]`: what differs for agent N, each key as above."
    ] = Field(default_factory=dict)

    def of(self, agent: int) -> dict[str, float]:
        """The noise of one agent, without the keys that are not set."""
        own = self.agents.get(agent, AgentNoise())
        return {
            **self.model_dump(exclude={"agents"}, exclude_none=True),
            **own.model_dump(exclude_none=True),
        }


class PrivacySection(Section):
    """What is claimed of every agent's problem, and the most epsilon that each may spend."""

    epsilon: Annotated[Positive | None, "Privacy budget: agents stop before they spend more."] = (
        None
    )
    sensitivity: Annotated[
        Positive | None, "Largest difference between the gradients of adjacent problems."
    ] = None
    adjacency: Annotated[
        Literal["function", "record"] | None,
        "Adjacent problems differ in one f_i, or in one record of it. [function]",
    ] = None
    smoothness: Annotated[NonNegative | None, "L of every objective. Counts as public."] = None
    magnitude: Annotated[Positive | None, "No coordinate of x or y is larger."] = None
    rounding: Annotated[
        Positive | None, "Rounding error of a gradient's coordinate, over the magnitude. [2^-40]"
    ] = None

    @model_validator(mode="after")
    def _measured(self) -> PrivacySection:
        if self.epsilon is not None and self.sensitivity is None:
            raise ValueError(
                "sensitivity is missing: by how much the gradients of adjacent problems may differ"
            )
        if self.epsilon is not None and self.magnitude is None:
            raise ValueError(
                "magnitude is missing: a bound on |x| and |y|, by which a budget counts rounding; "
                "`cpgt plan --epsilon E --write FILE` chooses one"
            )
        return self


def _public_key(text: str) -> str:
    if not is_key(text):
        raise ValueError("this is no public key; 'cpgt keys show FILE' prints one")
    return text


PublicKey = Annotated[str, AfterValidator(_public_key)]


class KeysSection(Section):
    """The public key of every party, by which parties on separate machines know each other."""

    coordinator: Annotated[PublicKey, "The coordinator's."]
    agents: Annotated[dict[int, PublicKey], "Each agent's, by its number."]

    @model_validator(mode="after")
    def _all_different(self) -> KeysSection:
        if len({self.coordinator, *self.agents.values()}) <= len(self.agents):
            raise ValueError("the same key is given twice; every party needs its own")
        return self


class StopSection(Section):
    """When a run ends before all rounds are played."""

    change: Annotated[
        Positive | None, "End once no agent's last message of a window is longer."
    ] = None


GRAPH = Kinds(KindSection, GRAPHS)
WEIGHTING = Kinds(WeightsSection, WEIGHTS, given=("graph",))
PUBLIC_FAMILIES: dict[str, Kinds[Any]] = {"graph": GRAPH, "weights": WEIGHTING}


class PublicNetwork(Section):
    name: Annotated[str, "Name of the network."] = "network"
    rounds: Annotated[int, Bounds(ge=1, lt=2**32), "Number of rounds."]
    window: Annotated[
        int, Bounds(ge=1, lt=2**31), "Rounds from one report of the agents to the next."
    ] = 200
    patience: Annotated[Positive, "Seconds of silence after which an agent is given up."] = 30.0
    start: Annotated[
        Literal["zeros", "uniform"], "Where x starts: at 0, or uniform on [0, 1]^d."
    ] = "zeros"
    data: Annotated[str | None, "File of each agent's data, with {id} for its number."] = None
    algorithm: AlgorithmSection
    graph: Annotated[KindSection, GRAPH, "Agents exchange messages with their neighbours."]
    weights: Annotated[WeightsSection, WEIGHTING] = WEIGHTING.section("metropolis")
    compressor: KindSection = KindSection(kind="identity")
    noise: NoiseSection = NoiseSection()
    privacy: PrivacySection = PrivacySection()
    objective: KindSection
    synthetic: SyntheticSection | None = None
    stop: StopSection = StopSection()
    keys: KeysSection | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> PublicNetwork:
        agents = f"agents 1..{len(self.agents)}"
        strangers = sorted(set(self.noise.agents) - set(self.agents))
        if strangers:
            raise ValueError(f"noise.agents.{strangers[0]}: the network has {agents}")
        if self.keys is not None and set(self.keys.agents) != set(self.agents):
            raise ValueError(f"keys.agents: must have the keys of {agents}")
        if self.data is not None and self.synthetic is not None:
            raise ValueError("data: give either a file pattern or a synthetic section, not both")
        if self.data is not None and len(self.agents) > 1 and "{id}" not in self.data:
            raise ValueError("data: the pattern must contain {id}: each agent has its own file")
        for name in ("algorithm", "compressor", "objective"):
            try:
                msgpack.packb(getattr(self, name).model_dump())
            except (TypeError, ValueError, OverflowError) as error:
                reason = f"{name}: an option that cannot be sent to the agents: {error}"
                raise ValueError(reason) from None
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the tables: the models of kinds are made at run time, so pickle cannot find them
        by their names."""
        return type(self).model_validate, (self.model_dump(),)

    @cached_property
    def topology(self) -> Topology:
        try:
            graph = GRAPHS[self.graph.kind](**self.graph.options)
        except TopologyError as error:
            raise ValueError(f"graph: {error}") from None
        try:
            if self.weights.matrix is not None:
                return given_weights(graph, self.weights.matrix)
            return WEIGHTS[self.weights.kind](graph, **self.weights.options)
        except TopologyError as error:
            raise ValueError(f"weights: {error}") from None

    @property
    def agents(self) -> range:
        return range(1, self.topology.graph.agents + 1)

    @property
    def neighbours(self) -> dict[int, tuple[int, ...]]:
        return {agent: self.topology.graph.neighbours(agent) for agent in self.agents}

    @property
    def noisy(self) -> bool:
        """Whether every agent adds noise to everything it sends."""
        x_alone = self.algorithm.kind in NOISE_ON_X_ALONE
        scales = [self.noise.of(agent) for agent in self.agents]
        return all(own["s_x"] > 0 and (x_alone or own["s_y"] > 0) for own in scales)

    def parameters(self, agent: int) -> dict[str, Any]:
        """What the plan tells this agent: public parameters only, never where its data is."""
        return {
            "algorithm": self.algorithm.model_dump(),
            "compressor": self.compressor.model_dump(),
            "noise": self.noise.of(agent),
            "privacy": self.privacy.model_dump(exclude_none=True),
            "objective": self.objective.model_dump(),
            "start": self.start,
        }

    def data_file(self, agent: int) -> Path | None:
        return None if self.data is None else Path(self.data.replace("{id}", str(agent)))

    def to_toml(self) -> str:
        tables = self.model_dump(exclude_none=True, mode="json")
        return tomli_w.dumps({key: value for key, value in tables.items() if value != {}})
