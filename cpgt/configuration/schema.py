"""The network file as the coordinator needs it: everything public about a run, typed and checked.

What is private (data, secrets) is not in it, except for a pattern that says where each agent keeps
its data. Sections that only agents act on are carried as they are, so that no agent code is loaded
here; `cpgt.configuration.network` checks them, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgpack
import tomli_w
from pydantic import AfterValidator, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from cpgt.bounds import Bounds, InsideUnit, NonNegative, Positive, PositiveFraction, Size
from cpgt.configuration.kinds import Kinds, KindSection, Section
from cpgt.extensions import GROUPS, code_named_in
from cpgt.tables.errors import SchemaError
from cpgt.tables.schema import Schema, load_schema, parse_schema, schema_as_dict
from cpgt.topologies import (
    GRAPHS,
    WEIGHTS,
    Topology,
    TopologyError,
    given_weights,
    make_graph,
    make_weights,
)
from cpgt.wire.keys import is_key

# the type of a mistake whose text has whole lines
WHOLE_LINES = "whole_lines"
# the algorithms with noise that exchange x alone, so that noise.s_y is 0
NOISE_ON_X_ALONE = ("private-gradient-descent",)
# the algorithms for which the account of the state mechanism is known
WITH_STATE_ACCOUNT = ("cpgt", "diadsp")


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
    dimension: Annotated[Size, "Number of features of a record."]
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
    """The privacy of each agent: the mechanism that adds noise, the promise, and what it needs."""

    mechanism: Annotated[
        Literal["gradient", "objective", "state"] | None,
        "Where noise enters: every look at the data, the objective once, or x and y in every round "
        "(the paper's). [state if `[noise]` has a scale, else gradient if epsilon is given]",
    ] = None
    epsilon: Annotated[Positive | None, "Privacy budget: agents never spend more."] = None
    delta: Annotated[
        InsideUnit | None, "Failure probability of the promise. Mechanism state has none."
    ] = None
    adjacency: Annotated[
        Literal["record", "add-remove", "function"] | None,
        "Adjacent problems: one record replaced, one added or removed, or another f_i. "
        "[record; for state function]",
    ] = None
    clip: Annotated[Positive | None, "Longest gradient of a record; longer ones are cut."] = None
    sensitivity: Annotated[
        Positive | None, "Largest difference between the gradients of adjacent problems."
    ] = None
    smoothness: Annotated[NonNegative | None, "L of every objective. Counts as public."] = None
    magnitude: Annotated[Positive | None, "Bound on every coordinate of x and y."] = None
    rounding: Annotated[
        Positive | None, "Rounding error of a gradient's coordinate, over the magnitude. [2^-40]"
    ] = None
    feature_bound: Annotated[Positive | None, "Largest norm of a record's features."] = None
    target_bound: Annotated[Positive | None, "Largest absolute value of a record's target."] = None

    @field_validator("delta", mode="before")
    @classmethod
    def _not_a_distance(cls, delta: Any) -> Any:
        if isinstance(delta, int | float) and delta >= 1:
            raise ValueError(f"must be in (0, 1): it {NOT_A_DISTANCE.format(delta)}")
        return delta


NOT_A_DISTANCE = (
    "is the failure probability of mechanisms 'gradient' and 'objective'; for the largest "
    "difference between gradients write privacy.sensitivity = {0} (--sensitivity {0})"
)
STATE_KEYS = ("epsilon", "sensitivity", "smoothness", "magnitude", "rounding")
ADJACENCIES = {  # of each mechanism; the first is the default
    "gradient": ("record", "add-remove"),
    "objective": ("record", "add-remove", "function"),
    "state": ("function", "record"),
}


class PrivacyProblem(NamedTuple):
    """What is wrong with a key of [privacy]."""

    key: str
    text: str


def privacy_problem(mechanism: str | None, given: Mapping[str, Any]) -> PrivacyProblem | None:
    """The first of these keys that is missing or does not belong to the mechanism.

    `given` has no key whose value is None."""
    if mechanism in (None, "state") and "delta" in given:
        return PrivacyProblem("delta", NOT_A_DISTANCE.format(given["delta"]))
    if mechanism is None:
        others = sorted(given.keys() - {*STATE_KEYS, "mechanism", "adjacency"})
        need = f"{' and '.join(others)} need one: {', '.join(ADJACENCIES)}"
        return PrivacyProblem("mechanism", f"is missing; {need}") if others else None
    adjacency = given.get("adjacency", ADJACENCIES[mechanism][0])
    if adjacency not in ADJACENCIES[mechanism]:
        choices = " or ".join(ADJACENCIES[mechanism])
        return PrivacyProblem(
            "adjacency", f"mechanism {mechanism!r} has no {adjacency!r}; choose {choices}"
        )
    needed = _needed_keys(mechanism, adjacency, budget="epsilon" in given)
    for key in needed:
        if key not in given:
            meaning = next(
                text for text in PrivacySection.model_fields[key].metadata if isinstance(text, str)
            )
            return PrivacyProblem(key, f"is missing; mechanism {mechanism!r} needs it. {meaning}")
    for key in given:
        if key not in _keys(mechanism, adjacency):
            which = f"mechanism {mechanism!r} with adjacency {adjacency!r}"
            return PrivacyProblem(key, f"does not belong to {which}; leave it out")
    return None


def drop_keys_of_other_mechanisms(tables: dict[str, Any], mechanism: str) -> None:
    """Remove what the tables of a network file say for another mechanism than this one."""
    privacy = tables["privacy"]
    adjacencies = ADJACENCIES.get(mechanism, ())
    if privacy.get("adjacency") not in adjacencies:
        privacy.pop("adjacency", None)
    kept = {key for adjacency in adjacencies for key in _keys(mechanism, adjacency)}
    for key in privacy.keys() - kept - {"mechanism"}:
        del privacy[key]
    if mechanism != "state":
        tables.pop("noise", None)


def _keys(mechanism: str, adjacency: str) -> tuple[str, ...]:
    own = STATE_KEYS if mechanism == "state" else _needed_keys(mechanism, adjacency, budget=True)
    delta = () if mechanism == "state" else ("delta",)
    return "mechanism", "adjacency", *delta, *own


def _needed_keys(mechanism: str, adjacency: str, *, budget: bool) -> tuple[str, ...]:
    if mechanism == "gradient":
        return "epsilon", "delta", "clip"
    if mechanism == "state":
        return ("sensitivity", "magnitude") if budget else ()
    if adjacency == "function":
        return "epsilon", "sensitivity"  # without delta the promise is pure
    return "epsilon", "delta", "feature_bound", "target_bound"


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


GRAPH = Kinds(KindSection, GRAPHS, section="graph")
WEIGHTING = Kinds(WeightsSection, WEIGHTS, given=("graph",), section="weights")
PUBLIC_FAMILIES: dict[str, Kinds[Any]] = {"graph": GRAPH, "weights": WEIGHTING}


MAX_NAME = 100  # characters


def _folder_name(text: str) -> str:
    """A network's name becomes part of the name of a folder, and is shown to people."""
    if not (0 < len(text) <= MAX_NAME and text.isprintable()) or set("/\\") & set(text):
        raise ValueError(f"must be 1 to {MAX_NAME} printable characters without / and \\")
    if text.startswith("."):
        raise ValueError("must not begin with a dot")
    return text


FolderName = Annotated[str, AfterValidator(_folder_name)]


class PublicNetwork(Section):
    name: Annotated[FolderName, "Name of the network; folders are called by it."] = "network"
    rounds: Annotated[int, Bounds(ge=1, lt=2**32), "Number of rounds."]
    window: Annotated[
        int, Bounds(ge=1, lt=2**31), "Rounds from one report of the agents to the next."
    ] = 200
    patience: Annotated[Positive, "Seconds of silence after which an agent is given up."] = 30.0
    start: Annotated[
        Literal["zeros", "uniform"], "Where x starts: at 0, or uniform on [0, 1]^d."
    ] = "zeros"
    data: Annotated[
        str | None, "File of each agent's data, with {id} for its number; in this file's folder."
    ] = None
    table: Annotated[
        dict[str, Any] | None,
        "Schema of the agents' tables: a file, or `[table]` with its keys (docs/tables.md).",
    ] = None
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

    @field_validator("table", mode="before")
    @classmethod
    def _resolve_table(cls, table: Any) -> Any:
        """The keys of the schema in place of its file: what is agreed is in one file."""
        if not isinstance(table, str | Mapping):
            return table
        try:
            schema = load_schema(table) if isinstance(table, str) else parse_schema(table, "table")
        except SchemaError as error:
            raise PydanticCustomError(WHOLE_LINES, "{lines}", {"lines": str(error)}) from None
        return schema_as_dict(schema)

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
        self._check_privacy()
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
            graph = make_graph(self.graph.kind, self.graph.options)
        except TopologyError as error:
            raise ValueError(f"graph: {error}") from None
        try:
            if self.weights.matrix is not None:
                return given_weights(graph, self.weights.matrix)
            return make_weights(self.weights.kind, graph, self.weights.options)
        except TopologyError as error:
            raise ValueError(f"weights: {error}") from None

    @property
    def table_schema(self) -> Schema | None:
        return None if self.table is None else parse_schema(self.table, "table")

    @property
    def code(self) -> list[str]:
        """The code that this network names, as `module:factory`."""
        return code_named_in(self.model_dump(include=set(GROUPS)))

    @property
    def agents(self) -> range:
        return range(1, self.topology.graph.agents + 1)

    @property
    def neighbours(self) -> dict[int, tuple[int, ...]]:
        return {agent: self.topology.graph.neighbours(agent) for agent in self.agents}

    def _check_privacy(self) -> None:
        problem = privacy_problem(self.mechanism, self.privacy.model_dump(exclude_none=True))
        if problem:
            raise ValueError(f"privacy.{problem.key}: {problem.text}")
        if self.mechanism != "state" and self._any_scale:
            raise ValueError(
                f"noise: mechanism {self.mechanism!r} chooses its own noise; leave s_x and s_y out"
            )

    @property
    def _any_scale(self) -> bool:
        own = (scale for agent in self.noise.agents.values() for scale in (agent.s_x, agent.s_y))
        return any((self.noise.s_x, self.noise.s_y, *own))

    @property
    def mechanism(self) -> Literal["gradient", "objective", "state"] | None:
        """Where noise enters; None if it does not."""
        if self.privacy.mechanism is not None:
            return self.privacy.mechanism
        if self._any_scale:
            return "state"
        return None if self.privacy.epsilon is None else "gradient"

    @property
    def claims(self) -> dict[str, Any]:
        """The keys of [privacy] that are given, with the mechanism and adjacency in force."""
        claims = self.privacy.model_dump(exclude_none=True)
        if self.mechanism is None:
            return claims
        in_force = {"mechanism": self.mechanism, "adjacency": ADJACENCIES[self.mechanism][0]}
        return {**in_force, **claims}

    @property
    def stated_privacy(self) -> str | None:
        """What this file promises each agent's owner, in words; None if it promises nothing."""
        claims = self.claims
        if not self.noisy or not ({"epsilon", "sensitivity"} & claims.keys()):
            return None
        if self.mechanism == "state" and self.algorithm.kind not in WITH_STATE_ACCOUNT:
            return None
        epsilon = f"epsilon {claims['epsilon']:g}" if "epsilon" in claims else "epsilon as reported"
        numbers = [f"{key} {claims[key]:g}" for key in ("delta", "sensitivity") if key in claims]
        which = f"{claims['adjacency']} adjacency, mechanism {self.mechanism}"
        return ", ".join([epsilon, *numbers, which])

    @property
    def noisy(self) -> bool:
        """Whether nothing leaves an agent that does not carry noise."""
        if self.mechanism in ("gradient", "objective"):
            return True
        x_alone = self.algorithm.kind in NOISE_ON_X_ALONE
        scales = [self.noise.of(agent) for agent in self.agents]
        return all(own["s_x"] > 0 and (x_alone or own["s_y"] > 0) for own in scales)

    def parameters(self, agent: int) -> dict[str, Any]:
        """What the plan tells this agent: public parameters only, never where its data is."""
        return {
            "network": {
                "name": self.name,
                "agents": len(self.agents),
                "graph": self.graph.model_dump(exclude_none=True, mode="json"),
            },
            "algorithm": self.algorithm.model_dump(),
            "compressor": self.compressor.model_dump(),
            "noise": self.noise.of(agent),
            "privacy": self.claims,
            "objective": self.objective.model_dump(),
            "start": self.start,
            **({"table": self.table_schema.digest} if self.table_schema else {}),
        }

    def data_file(self, agent: int) -> Path | None:
        return None if self.data is None else Path(self.data.replace("{id}", str(agent)))

    def to_toml(self) -> str:
        tables = self.model_dump(exclude_none=True, mode="json")
        return tomli_w.dumps({key: value for key, value in tables.items() if value != {}})
