"""With the cost as the paper writes it, the paper's own DiaDSP row diverges.

Without noise, DiaDSP on quadratics is a linear iteration. With a spectral radius below 1 it
converges from every start, above 1 from almost none. The radius is computed for many draws of the
data, and shown next to the error in simulated rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cpgt.configuration.data import build_objectives
from cpgt.results.figures import figure, look
from cpgt.results.tables import Check, write_csv
from cpgt.runs.batch import run_trials
from cpgt.runs.pool import Task
from cpgt.studies.paper.rows import NOTE, ROWS, row_network
from cpgt.theory.quadratics import hessians, limits, tracking_radius
from cpgt.wire.arrays import Floats

SCALES = {
    "|A x - b|²": Fraction(1),
    "|A x - b|² / 6": Fraction(1, 6),
    "|A x - b|² / 36": Fraction(1, 36),
}
DIADSP = "paper-diadsp"
ROUNDS = 60


class Case(NamedTuple):
    """One way to scale the cost."""

    label: str
    radii: dict[str, Floats]  # row -> (draws,)
    error: Floats  # (rounds + 1,): |x(k) - x*|_F of DiaDSP without noise, on the shipped data


def simulate(label: str, draws: int) -> Case:
    """Runs in a worker process."""
    scale = float(SCALES[label])
    radii = np.array([_radii(scale, seed) for seed in range(1, draws + 1)])
    network = row_network(DIADSP, f"objective.scale={scale!r}", "noise.s_x=0.0", "noise.s_y=0.0")
    objectives = build_objectives(network, {})
    run = run_trials(network, objectives, trials=1, rounds=ROUNDS, seed=1)
    optimum = limits(objectives, np.zeros((1, objectives[0].dimension)))
    error = np.linalg.norm(run.x[:, 0] - optimum, axis=(1, 2))
    return Case(label, dict(zip(ROWS, radii.T, strict=True)), error)


def _radii(scale: float, seed: int) -> list[float]:
    """The radius of each row without noise and compression. Seed 1 gives the shipped data."""
    data = row_network(DIADSP, f"objective.scale={scale!r}", f"synthetic.seed={seed}")
    each = hessians(build_objectives(data, {}))
    parameters = [row_network(row).algorithm for row in ROWS]
    return [tracking_radius(data.topology.weights, each, p.alpha, p.gamma) for p in parameters]


def tasks(draws: int) -> list[Task]:
    return [Task(simulate, (label, draws), 5e3 * draws) for label in SCALES]


def checks(cases: Sequence[Case]) -> list[Check]:
    made = []
    for case in cases:
        radii, scaled = case.radii[DIADSP], SCALES[case.label] == Fraction(1, 36)
        passed = bool((radii < 1).all() if scaled else (radii > 1).all())
        name = f"DiaDSP {'converges' if scaled else 'diverges'} with f_i = {case.label}"
        interval = f"{radii.min():.3f} to {radii.max():.3f}"
        detail = f"spectral radius {interval} in {len(radii)} draws of the data"
        made.append(Check(name, passed, detail))
    return made


def write(cases: Sequence[Case], out: Path) -> None:
    rows = (
        (case.label, row_network(row).name, i, float(radius))
        for case in cases
        for row, radii in case.radii.items()
        for i, radius in enumerate(radii, start=1)
    )
    write_csv(out / "divergence.csv", ["cost", "algorithm", "draw", "spectral_radius"], rows)


def draw(cases: Sequence[Case], out: Path) -> None:
    draws = len(cases[0].radii[DIADSP])
    note = f"{NOTE.split('.')[0]}. Left: {draws} draws of A. Right: the shipped data, no noise."
    with figure(out, "divergence", panels=2, note=note) as (left, right):
        for i, case in enumerate(cases):
            radii = np.sort(case.radii[DIADSP])
            shares = np.arange(1, len(radii) + 1) / len(radii)
            left.step(radii, shares, label=f"$f_i$ = {case.label}", **look(i))
            right.semilogy(case.error, label=f"$f_i$ = {case.label}", **look(i))
            tail = np.arange(ROUNDS // 2, ROUNDS + 1)
            guide = case.error[-1] * case.radii[DIADSP][0] ** (tail - ROUNDS)
            label = "slope: spectral radius" if i == len(cases) - 1 else None
            right.semilogy(tail, guide, color="0.6", lw=4, zorder=0, label=label)
        left.axvline(1, color="0.4", lw=1)
        left.set(xlabel="spectral radius of one round of DiaDSP", ylabel="share of draws")
        left.set_xscale("log")
        ticks = (1, 2, 5, 10, 20)
        left.set_xticks(ticks, map(str, ticks), minor=False)
        left.set_xticks([], minor=True)
        right.set(xlabel="round $k$", ylabel=r"$\|x(k) - x^*\|_F$")
        left.legend()
        right.legend()
