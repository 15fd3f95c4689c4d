"""`cpgt bandwidth`, from the network to the report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rich.console import Console

from cpgt.agent.errors import DivergedError
from cpgt.configuration.data import build_objectives
from cpgt.configuration.network import Network
from cpgt.coordinator.errors import RunError
from cpgt.studies.bandwidth.bandwidth_report import (
    Findings,
    savings,
    show_findings,
    write_findings,
)
from cpgt.studies.bandwidth.break_even import find_break_even
from cpgt.studies.bandwidth.contenders import UNCOMPRESSED, Contender, contenders, tune_step_sizes
from cpgt.studies.bandwidth.measure import Measured, measure_contender


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
            "tuning the step sizes of the uncompressed network in this process", highlight=False
        )
        found[-1] = Contender(
            UNCOMPRESSED, tune_step_sizes(found[-1].network, objectives, target, seed)
        )
    measured = _measure_all(found, out, console, target, seed, search)
    findings = Findings(target, objectives[0].dimension, measured, tune)
    saved = savings(findings, measured[0])
    if findings.price and saved and min(saved) <= 1:
        console.print("searching for the dimension from which on it would pay", highlight=False)
        ours = next(contender for contender in found if contender.label == measured[0].label)
        folder = out / "break-even"
        tried = find_break_even(ours, findings.dimension, findings.price, folder, search)
        findings = replace(findings, break_even=tried)
    write_findings(findings, out)
    show_findings(findings, console)
    console.print(f"files: {out}", highlight=False, soft_wrap=True)
    return findings


def _measure_all(
    found: list[Contender], out: Path, console: Console, target: float, seed: int, search: Path
) -> list[Measured]:
    """A compressed network that diverges is left out; the uncompressed one must not diverge."""
    measured = []
    for i, contender in enumerate(found, start=1):
        console.print(f"running {contender.label} as processes", highlight=False)
        try:
            measured.append(measure_contender(contender, out / f"run-{i}", target, seed, search))
        except RunError as error:
            if error.exit_code != DivergedError.exit_code or contender is found[-1]:
                raise
            console.print(f"{contender.label} diverged and is left out", highlight=False)
    if len(measured) < 2:
        raise RunError(
            "every compressed network diverged; lower algorithm.alpha or algorithm.gamma", 4
        )
    return measured
