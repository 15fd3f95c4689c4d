"""`cpgt bandwidth`, from the network to the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from cpgt.agent.errors import DivergedError
from cpgt.agent.objectives import Objective
from cpgt.configuration.data import build_objectives
from cpgt.configuration.loading import NetworkError
from cpgt.configuration.network import Network
from cpgt.coordinator.errors import RunError
from cpgt.results.summary import read_summary
from cpgt.results.traffic import LINK
from cpgt.runs.experiment import Experiment
from cpgt.runs.launch import run_coordinator
from cpgt.studies import StudySettings
from cpgt.studies.bandwidth.bandwidth_report import Findings, savings, show_findings, write_findings
from cpgt.studies.bandwidth.contenders import (
    EXTRA,
    UNCOMPRESSED,
    contenders,
    replace_sections,
    rival,
    tune_step_sizes,
    uncompressed,
)
from cpgt.studies.bandwidth.measure import Measured, RoundSizes, measure_network

# of the search for the dimension from which on compression pays
MAX_DIMENSION = 1 << 14
ROUNDS = 60
MIN_GAMMA = 1e-3


def compare_bandwidth(
    network: Network, specs: str | None, settings: StudySettings, out: Path, console: Console
) -> Findings:
    networks = contenders(network, specs)
    console.print(
        "NOT PRIVATE: an experiment, states are observed and noise is seeded", style="red"
    )
    objectives = build_objectives(network, {})
    if settings.tune:
        console.print("tuning the step sizes of the uncompressed network in this process")
        plain = networks[UNCOMPRESSED]
        networks[UNCOMPRESSED] = tune_step_sizes(plain, objectives, settings.target, settings.seed)
    measured = _measure_all(networks, settings, out, console)
    extra = _measure_rival(network, objectives, settings, out / "extra", console)
    findings = Findings(settings.target, objectives[0].dimension, measured, settings.tune, extra)
    saved, first = savings(measured[0], findings.plain), networks[measured[0].label]
    if findings.price and saved and min(saved) <= 1:
        console.print("searching for the dimension from which on it would pay")
        tried = _find_break_even(first, findings, out / "break-even", settings.search)
        findings = replace(findings, break_even=tried)
    write_findings(findings, out)
    show_findings(findings, console)
    return findings


def _measure_all(
    networks: Mapping[str, Network], settings: StudySettings, out: Path, console: Console
) -> list[Measured]:
    """A compressed network that diverges is left out; the uncompressed one must not diverge."""
    measured = []
    for i, (label, network) in enumerate(networks.items(), start=1):
        console.print(f"running {label} as processes")
        try:
            measured.append(measure_network(label, network, settings, out / f"run-{i}"))
        except RunError as error:
            if error.exit_code != DivergedError.exit_code or label == UNCOMPRESSED:
                raise
            console.print(f"{label} diverged and is left out")
    if len(measured) < 2:
        raise RunError(
            "every compressed network diverged; lower algorithm.alpha or algorithm.gamma", 4
        )
    return measured


def _measure_rival(
    network: Network,
    objectives: Sequence[Objective],
    settings: StudySettings,
    out: Path,
    console: Console,
) -> Measured | None:
    """With its best step size, with or without --tune: the strongest baseline. None if it has
    none that reaches the target."""
    other = rival(network)
    if other is None:
        return None
    try:
        other = tune_step_sizes(other, objectives, settings.target, settings.seed)
    except NetworkError:
        return None
    console.print(f"running {EXTRA} as processes")
    return measure_network(EXTRA, other, settings, out)


def _find_break_even(
    network: Network, findings: Findings, out: Path, search: Path
) -> list[RoundSizes]:
    """Measure at doubled dimensions until compression pays on a link, headers included."""
    found: list[RoundSizes] = []
    dimension, price = findings.dimension, findings.price or 0.0
    while (dimension := 2 * dimension) <= MAX_DIMENSION:
        resized = _resize(network, dimension)
        pair = (resized, uncompressed(resized))
        ours, plain = (
            _link_bytes(n, out / f"{dimension}-{n.compressor.kind}", search) for n in pair
        )
        if ours is None or plain is None:
            break
        found.append(RoundSizes(dimension, ours, plain))
        if found[-1].pays(price):
            break
    return found


def _resize(network: Network, dimension: int) -> Network:
    """The same compressor and graph for a synthetic quadratic of this dimension.

    With this gamma no compressor makes it diverge."""
    gamma = max(0.5 * (1.0 - network.algorithm_of(1).compressor.phi(dimension)), MIN_GAMMA)
    return replace_sections(
        network,
        rounds=ROUNDS,
        window=ROUNDS // 3,
        algorithm={"kind": "cpgt", "alpha": 0.05, "gamma": gamma},
        noise={},
        stop={},
        objective={"kind": "quadratic"},
        synthetic={"kind": "quadratic", "dimension": dimension, "seed": 1},
        data=None,
    )


def _link_bytes(network: Network, out: Path, search: Path) -> float | None:
    out.mkdir(parents=True)
    if run_coordinator(network, out, Experiment(), quiet=True, search=search):
        return None
    summary = read_summary(out)
    return summary.bytes.per_round[LINK] if summary else None
