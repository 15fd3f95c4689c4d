"""The whole of `cpgt bandwidth`, from the network to the report."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from cpgt.agent.errors import DivergedError
from cpgt.configuration.data import build_objectives
from cpgt.configuration.network import Network
from cpgt.coordinator.errors import RunError
from cpgt.studies.bandwidth.break_even import climb
from cpgt.studies.bandwidth.contenders import UNCOMPRESSED, Contender, contenders, tuned
from cpgt.studies.bandwidth.measure import measure
from cpgt.studies.bandwidth.report import Findings, savings, show, write


def compare_bandwidth(
    network: Network,
    out: Path,
    console: Console,
    *,
    specs: str | None,
    target: float,
    tune: bool,
    seed: int,
    search: Path,
) -> Findings:
    found = contenders(network, specs)
    console.print(
        "NOT PRIVATE: states are observed and the noise is seeded, for an experiment", style="red"
    )
    objectives = build_objectives(network, {})
    if tune:
        console.print(
            "looking, in this process, for what suits the uncompressed network", highlight=False
        )
        found[-1] = Contender(UNCOMPRESSED, tuned(found[-1].network, objectives, target, seed))
    measured = []
    for i, contender in enumerate(found):
        console.print(f"running {contender.label} as processes", highlight=False)
        try:
            measured.append(measure(contender, out / f"run-{i + 1}", target, seed, search))
        except RunError as error:
            if error.exit_code != DivergedError.exit_code or contender is found[-1]:
                raise
            console.print(f"{contender.label} diverged, and is left out", highlight=False)
    if len(measured) < 2:
        raise RunError("no compressed network is left; lower algorithm.alpha or algorithm.gamma", 4)
    findings = Findings(target, objectives[0].dimension, measured, tune, ())
    saved = savings(findings, measured[0])
    if findings.price and saved and min(saved) <= 1:
        console.print("looking for the dimension from which on it would pay", highlight=False)
        ours = next(contender for contender in found if contender.label == measured[0].label)
        steps = climb(ours, findings.dimension, findings.price, out / "break-even", search)
        findings = Findings(target, findings.dimension, measured, tune, steps)
    write(findings, out)
    show(findings, console)
    console.print(f"files: {out}", highlight=False, soft_wrap=True)
    return findings
