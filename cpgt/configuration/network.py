"""The whole network file, as agents and experiments need it: every section typed and checked."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import model_validator

from cpgt.agent.algorithms import AnyAlgorithm
from cpgt.agent.algorithms.registry import ALGORITHMS, build_algorithm
from cpgt.agent.compressors.registry import COMPRESSORS
from cpgt.agent.objectives.registry import OBJECTIVES
from cpgt.agent.try_out import check_algorithm
from cpgt.configuration.kinds import Kinds, KindSection
from cpgt.configuration.schema import (
    PUBLIC_FAMILIES,
    AlgorithmSection,
    PublicNetwork,
    SyntheticSection,
)
from cpgt.configuration.synthetic import FITTING, GENERATORS, require_moderate
from cpgt.tables.schema import Schema

ALGORITHM = Kinds(
    AlgorithmSection,
    {kind: family.make for kind, family in ALGORITHMS.items()},
    given=("compressor", "noise"),
    section="algorithm",
)
COMPRESSOR = Kinds(KindSection, COMPRESSORS, section="compressor")
OBJECTIVE = Kinds(KindSection, OBJECTIVES, given=("data",), section="objective")
SYNTHETIC = Kinds(SyntheticSection, GENERATORS, given=("draw",))

FAMILIES: dict[str, Kinds[Any]] = {
    **PUBLIC_FAMILIES,
    "algorithm": ALGORITHM,
    "compressor": COMPRESSOR,
    "objective": OBJECTIVE,
    "synthetic": SYNTHETIC,
}


# the objectives that can be fitted to a table, by its task
TASKS: dict[str, tuple[str, ...]] = {
    "classification": ("logistic", "softmax"),
    "regression": ("ridge", "huber", "least-squares"),
    "counts": ("poisson",),
}


class Network(PublicNetwork):
    """The network file with the kinds and options that only agents know."""

    algorithm: Annotated[AlgorithmSection, ALGORITHM]
    compressor: Annotated[
        KindSection, COMPRESSOR, "The compressor C of the vectors that are sent."
    ] = COMPRESSOR.section("identity")
    objective: Annotated[KindSection, OBJECTIVE, "Each agent's cost f_i, a function of its data."]
    synthetic: Annotated[SyntheticSection, SYNTHETIC] | None = None

    @model_validator(mode="after")
    def _agents_can_run_it(self) -> Network:
        algorithm = self.algorithm_of(1)
        if self.table_schema and self.objective.kind in OBJECTIVES:
            self._check_table(self.table_schema)
        if self.synthetic:
            self._check_synthetic(self.synthetic)
            dimension = self.synthetic.dimension * self.objective.options.get("classes", 1)
            check_algorithm(algorithm, dimension)
        return self

    def _check_table(self, schema: Schema) -> None:
        kind, options = self.objective.kind, self.objective.options
        if kind not in TASKS[schema.task]:
            choices = " or ".join(TASKS[schema.task])
            target = f"the table's target {schema.target.column!r} is for {schema.task}"
            raise ValueError(f"objective.kind: {target}; choose {choices}, not {kind!r}")
        if schema.task == "classification" and options.get("classes", 2) != schema.classes:
            classes = f"{schema.target.column!r} has {schema.classes} classes"
            advice = "objective.classes: must be equal" if "classes" in options else "use softmax"
            raise ValueError(f"{advice}; the table's target {classes}")
        if options.get("intercept") and not schema.intercept:
            raise ValueError("objective.intercept: the table has none; set table.intercept = true")

    def _check_synthetic(self, synthetic: SyntheticSection) -> None:
        fitting = FITTING.get(self.objective.kind, tuple(GENERATORS))
        if synthetic.kind not in fitting:
            raise ValueError(
                f"synthetic.kind: {synthetic.kind!r} makes no data for {self.objective.kind!r}; "
                f"choose {' or '.join(fitting)}"
            )
        classes = self.objective.options.get("classes", 2)
        if synthetic.kind == "classification" and synthetic.options.get("classes", 2) != classes:
            raise ValueError(f"synthetic.classes: {self.objective.kind!r} needs {classes} here")
        require_moderate(synthetic.dimension, len(self.agents), **synthetic.options)

    def algorithm_of(self, agent: int) -> AnyAlgorithm:
        return build_algorithm(self.parameters(agent), self.privacy.magnitude)
