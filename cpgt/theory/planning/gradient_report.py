"""A plan of the gradient mechanism as tables and remarks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console

from cpgt.configuration.network import Network
from cpgt.results.formatting import make_table
from cpgt.theory.planning.facts import PublicFacts
from cpgt.theory.planning.synthetic_rehearsal import GradientPlan

SYNTHETIC = (
    "Losses are those of SYNTHETIC records of the same shape, above the loss of the same fit "
    "without noise. They say nothing about the agents' data, which was not read."
)
ADJACENT = {"record": "one record is replaced", "add-remove": "one record is added or removed"}


def show_gradient_plan(plan: GradientPlan, facts: PublicFacts, console: Console) -> None:
    show_settings(plan.network, facts, console)
    rows = [
        (
            f"{found.epsilon:g}",
            f"{found.gain:.4g}",
            f"{found.private:.4g} +- {found.error:.2g}",
            f"{found.kept:.0%}",
        )
        for found in sorted({plan.rehearsal, *plan.frontier}, key=lambda found: found.epsilon)
    ]
    console.print(
        make_table(("epsilon", "gain over x = 0", "loss above no noise", "improvement kept"), rows)
    )
    console.print(SYNTHETIC, highlight=False, soft_wrap=True)
    if not plan.worthwhile:
        console.print(
            f"At epsilon {facts.epsilon:g} noise costs more than the fit gains: the model would be "
            "worse than x = 0. Use more records, fewer features, or a larger epsilon.",
            highlight=False,
            soft_wrap=True,
        )


def show_settings(network: Network, facts: PublicFacts, console: Console) -> None:
    promise = (
        "no privacy"
        if facts.epsilon is None
        else f"epsilon {facts.epsilon:g}, delta {facts.delta:g} for each agent, "
        f"if {ADJACENT[facts.adjacency]}"
    )
    console.print(
        f"[bold]{network.name}: {len(network.agents)} agents, d = {facts.dimension:,}, "
        f"{sum(facts.records):,} records[/]; {promise}",
        highlight=False,
    )
    console.print(make_table(("setting", "value", "meaning"), _settings(network)))


def _settings(network: Network) -> Iterator[tuple[str, str, str]]:
    algorithm, compressor = network.algorithm.model_dump(), network.compressor.model_dump()
    every = int(algorithm.get("every", 1))
    gradients = network.algorithm_of(1).gradients(network.rounds)
    yield (
        "rounds",
        f"{network.rounds}",
        f"{gradients} gradients, {every} rounds from one to the next",
    )
    if network.stop.change is not None:
        yield "stop.change", f"{network.stop.change:.2g}", "messages as short as this end the run"
    if network.mechanism == "objective":
        yield "privacy.mechanism", "objective", "second moments, released once"
    if network.mechanism == "gradient":
        yield "privacy.clip", f"{network.claims['clip']:.4g}", "longest gradient of a record"
    yield "algorithm.alpha", f"{network.algorithm.alpha:.4g}", "step along the gradient"
    yield "algorithm.momentum", f"{algorithm.get('momentum', 0.0):g}", "share of the last step"
    yield "algorithm.gamma", f"{network.algorithm.gamma:g}", "step of mixing"
    yield "compressor", compressor["kind"], _options(compressor)


def _options(section: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in section.items() if name != "kind")


def plan_as_dict(plan: GradientPlan) -> dict[str, Any]:
    """For plan.json."""
    return {
        "network": plan.network.model_dump(exclude_none=True, mode="json"),
        "worthwhile": plan.worthwhile,
        "losses_are": SYNTHETIC,
        "rehearsal": _rehearsal(plan.rehearsal),
        "frontier": [_rehearsal(found) for found in plan.frontier],
    }


def _rehearsal(found: Any) -> dict[str, float]:
    return {**vars(found), "gain": found.gain, "kept": found.kept}
