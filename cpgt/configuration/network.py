"""The network file: everything public about a run, in one TOML file, read into a typed, checked model.

Every mistake becomes one line that starts with the path of its key. What is private (data, secrets) is not
in here, but for a pattern that says where each agent keeps its own data.
"""

from __future__ import annotations

import inspect
import tomllib
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import msgpack
import tomli_w
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from cpgt.agent.algorithms import ALGORITHMS, COMPRESSORS, Algorithm, build_algorithm
from cpgt.agent.objectives import OBJECTIVES, is_code
from cpgt.configuration.synthetic import FITTING, GENERATORS
from cpgt.topologies import GRAPHS, WEIGHTS, Topology, TopologyError, build_graph, given_weights
from cpgt.wire.keys import is_key

ALIASES = {"paper": "paper-c2-1"}
Finite = Annotated[float, Field(allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Scale = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Decay = Annotated[float, Field(gt=0, le=1)]


class NetworkError(ValueError):
    """A network file that cannot be used; one line for each mistake."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Choice(BaseModel):
    """A kind out of a registry, with the options of that kind beside it."""

    model_config = ConfigDict(extra="allow", frozen=True)
    kind: str

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class AlgorithmSection(Choice):
    """The options of its kind stand beside these."""

    kind: str = "cpgt"
    alpha: Positive
    gamma: Annotated[float, Field(gt=0, le=1)] = 1.0


class WeightsSection(Section):
    kind: str = "metropolis"
    matrix: list[list[Finite]] | None = None


class AgentNoise(Section):
    s_x: Scale | None = None
    s_y: Scale | None = None
    q: Decay | None = None
    floor: Positive | None = None


class NoiseSection(Section):
    s_x: Scale = 0.0
    s_y: Scale = 0.0
    q: Decay = 1.0
    floor: Positive | None = None  # [2^-40 of the smaller scale]
    agents: dict[int, AgentNoise] = {}

    def of(self, agent: int) -> dict[str, float]:
        """The noise of one agent; what nobody chose is not in it."""
        own = self.agents.get(agent, AgentNoise())
        return {
            **self.model_dump(exclude={"agents"}, exclude_none=True),
            **own.model_dump(exclude_none=True),
        }


class PrivacySection(Section):
    """What is claimed of every agent's problem, and the most that each may spend."""

    epsilon: Positive | None = None
    delta: Positive | None = None
    adjacency: Literal["function", "record"] | None = None
    smoothness: Scale | None = None
    magnitude: Positive | None = None  # no coordinate of x or y is larger
    rounding: Positive | None = (
        None  # no coordinate of a gradient is further off, over the magnitude [2^-40]
    )

    @model_validator(mode="after")
    def _measured(self) -> PrivacySection:
        if self.epsilon is not None and self.delta is None:
            raise ValueError(
                "delta is missing: by how much the gradients of adjacent problems may differ"
            )
        if self.epsilon is not None and self.magnitude is None:
            raise ValueError(
                "magnitude is missing: a bound on |x| and |y|, so that a budget can count rounding; "
                "`cpgt plan --epsilon E --write FILE` chooses one"
            )
        return self


class SyntheticSection(Choice):
    """Data made up for an experiment; `dimension` is the number of features."""

    kind: str = "gaussian"
    dimension: Annotated[int, Field(ge=1)]
    seed: Annotated[int, Field(ge=0)]


def _public_key(text: str) -> str:
    if not is_key(text):
        raise ValueError("this is no public key; 'cpgt keys show FILE' prints one")
    return text


PublicKey = Annotated[str, AfterValidator(_public_key)]


class KeysSection(Section):
    """Everybody's public key, by which parties on separate machines know each other."""

    coordinator: PublicKey
    agents: dict[int, PublicKey]

    @model_validator(mode="after")
    def _all_different(self) -> KeysSection:
        if len({self.coordinator, *self.agents.values()}) <= len(self.agents):
            raise ValueError("the same key is given twice; every party has a key of its own")
        return self


class StopSection(Section):
    change: Positive | None = None


class Network(Section):
    name: str = "network"
    rounds: Annotated[int, Field(ge=1, lt=2**32)]
    window: Annotated[int, Field(ge=1, lt=2**31)] = 200
    patience: Positive = 30.0
    start: Literal["zeros", "uniform"] = "zeros"
    data: str | None = None
    algorithm: AlgorithmSection
    graph: Choice
    weights: WeightsSection = WeightsSection()
    compressor: Choice = Choice(kind="identity")
    noise: NoiseSection = NoiseSection()
    privacy: PrivacySection = PrivacySection()
    objective: Choice
    synthetic: SyntheticSection | None = None
    stop: StopSection = StopSection()
    keys: KeysSection | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Network:
        _check_choice("graph", self.graph, GRAPHS)
        _check_choice("compressor", self.compressor, COMPRESSORS)
        makers = {kind: family.make for kind, family in ALGORITHMS.items()}
        _check_choice(
            "algorithm", self.algorithm, makers, given=[field.name for field in fields(Algorithm)]
        )
        if not is_code(self.objective.kind):
            _check_choice("objective", self.objective, OBJECTIVES, given=("data",))
        try:
            msgpack.packb(self.objective.options)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(
                f"objective: an option that cannot be sent to the agents: {error}"
            ) from None
        strangers = sorted(set(self.noise.agents) - set(self.agents))
        if strangers:
            raise ValueError(
                f"noise.agents.{strangers[0]}: the network has agents 1..{len(self.agents)}"
            )
        if self.keys is not None and set(self.keys.agents) != set(self.agents):
            raise ValueError(f"keys.agents: must have the keys of agents 1..{len(self.agents)}")
        if self.data is not None and self.synthetic is not None:
            raise ValueError("data: give either a file pattern or a synthetic section, not both")
        if self.data is not None and len(self.agents) > 1 and "{id}" not in self.data:
            raise ValueError(
                "data: the pattern must contain {id}, so that each agent has a file of its own"
            )
        algorithm = self.algorithm_of(1)
        if self.synthetic:
            self._check_synthetic(self.synthetic)
            algorithm.check(self.synthetic.dimension * self.objective.options.get("classes", 1))
        return self

    def _check_synthetic(self, synthetic: SyntheticSection) -> None:
        _check_choice("synthetic", synthetic, GENERATORS, given=("draw", "dimension"))
        fitting = FITTING.get(self.objective.kind, tuple(GENERATORS))
        if synthetic.kind not in fitting:
            raise ValueError(
                f"synthetic.kind: {synthetic.kind!r} makes no data for {self.objective.kind!r}; "
                f"choose {' or '.join(fitting)}"
            )
        classes = self.objective.options.get("classes", 2)
        if synthetic.kind == "classification" and synthetic.options.get("classes", 2) != classes:
            raise ValueError(f"synthetic.classes: {self.objective.kind!r} needs {classes} here")

    @cached_property
    def topology(self) -> Topology:
        try:
            graph = build_graph(self.graph.kind, **self.graph.options)
        except TopologyError as error:
            raise ValueError(f"graph: {error}") from None
        try:
            if self.weights.matrix is not None:
                return given_weights(graph, self.weights.matrix)
            if self.weights.kind not in WEIGHTS:
                raise TopologyError(
                    f"no weights are called {self.weights.kind!r}; there are {', '.join(WEIGHTS)}"
                )
            return WEIGHTS[self.weights.kind](graph)
        except TopologyError as error:
            raise ValueError(f"weights: {error}") from None

    @property
    def agents(self) -> range:
        return range(1, self.topology.graph.agents + 1)

    @property
    def neighbours(self) -> dict[int, tuple[int, ...]]:
        return {agent: self.topology.graph.neighbours(agent) for agent in self.agents}

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

    def algorithm_of(self, agent: int) -> Algorithm[Any, Any]:
        return build_algorithm(self.parameters(agent))

    @property
    def noisy(self) -> bool:
        """Whether every agent adds noise to everything it sends."""
        return all(min(self.algorithm_of(agent).noise.scales) > 0 for agent in self.agents)

    def data_file(self, agent: int) -> Path | None:
        return None if self.data is None else Path(self.data.replace("{id}", str(agent)))

    def to_toml(self) -> str:
        tables = self.model_dump(exclude_none=True, mode="json")
        return tomli_w.dumps({key: value for key, value in tables.items() if value != {}})


def _check_choice(
    path: str, choice: Choice, registry: Mapping[str, Callable[..., Any]], given: Sequence[str] = ()
) -> None:
    """The kind is known, and its options are the ones its factory takes, with values of the right type."""
    if choice.kind not in registry:
        raise ValueError(
            f"{path}.kind: {choice.kind!r} is not known; there are {', '.join(registry)}"
        )
    factory = registry[choice.kind]
    parameters = {n: p for n, p in inspect.signature(factory).parameters.items() if n not in given}
    hints = typing.get_type_hints(factory, include_extras=True)
    for name, value in choice.options.items():
        if name not in parameters:
            always = [field for field in type(choice).model_fields if field != "kind"]
            takes = ", ".join([*always, *parameters]) or "no options"
            raise ValueError(f"{path}.{name}: {choice.kind!r} has no such option; it takes {takes}")
        try:
            TypeAdapter(hints[name]).validate_python(value, strict=True)
        except ValidationError as error:
            raise ValueError(f"{path}.{name}: {error.errors()[0]['msg']}, not {value!r}") from None
    for name, parameter in parameters.items():
        if parameter.default is inspect.Parameter.empty and name not in choice.options:
            raise ValueError(f"{path}.{name}: is missing; {choice.kind!r} needs it")


def shipped_networks() -> list[str]:
    names = (entry.name for entry in resources.files("cpgt").joinpath("networks").iterdir())
    return sorted(
        [*ALIASES, *(name.removesuffix(".toml") for name in names if name.endswith(".toml"))]
    )


def load_network(source: str, overrides: Sequence[str] = ()) -> Network:
    """A network from a file, or by the name of one that is shipped, with `key.path=value` overrides."""
    text, folder = _read(source)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NetworkError(f"{source}: not TOML: {error}") from None
    apply_overrides(tables, overrides)
    if isinstance(tables.get("data"), str):
        tables["data"] = str(folder / tables["data"])
    return parse_network(tables, source)


def parse_network(tables: Mapping[str, Any], source: str = "network") -> Network:
    try:
        return Network.model_validate(tables)
    except ValidationError as error:
        raise NetworkError("\n".join(_lines(source, error))) from None


def _read(source: str) -> tuple[str, Path]:
    path = Path(source)
    try:
        if path.suffix == ".toml" or path.exists():
            return path.read_text(encoding="utf-8"), path.absolute().parent
    except (OSError, UnicodeDecodeError) as error:
        raise NetworkError(
            f"{source}: cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    if source not in shipped_networks():
        raise NetworkError(
            f"{source}: neither a file nor a network shipped here ({', '.join(shipped_networks())})"
        )
    name = ALIASES.get(source, source)
    return resources.files("cpgt").joinpath("networks", f"{name}.toml").read_text(
        encoding="utf-8"
    ), Path.cwd()


def apply_overrides(tables: dict[str, Any], overrides: Sequence[str]) -> None:
    """`a.b=value` for each; the value is TOML, or else text. A new `kind` drops the old kind's options."""
    for override in sorted(
        overrides, key=lambda text: not text.partition("=")[0].endswith(".kind")
    ):
        key, equals, value = override.partition("=")
        *parents, last = key.strip().split(".")
        if not equals or not last:
            raise NetworkError(f"--set {override}: must look like key.path=value")
        table = tables
        for parent in parents:
            table = table.setdefault(parent, {})
            if not isinstance(table, dict):
                raise NetworkError(f"--set {override}: {parent} is a value, not a table")
        if last == "kind" and parents and parents != ["algorithm"]:
            table.clear()
        table[last] = _toml_value(value.strip())


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _lines(source: str, error: ValidationError) -> list[str]:
    lines = []
    for problem in error.errors(include_url=False):
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = "no such key"
        elif problem["type"] == "missing":
            message = "is missing"
        elif problem["loc"]:
            message += f", not {problem['input']!r}"
        path = ".".join(map(str, problem["loc"]))
        lines.append(f"{source}: {path}: {message}" if path else f"{source}: {message}")
    return lines
