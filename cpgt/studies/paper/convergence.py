"""Figure "convergence": the residual (1/T) sum_t |x_t(k) - x_inf,t|_F over rounds and over bytes.

x_inf of a trial follows from its noise on y, without that of the rounds after the last one. So a
trial has more rounds than are shown; the missing noise then moves x_inf by a hundredth of the
smallest residual shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cpgt.results.figures import figure, look
from cpgt.results.tables import Check, write_csv
from cpgt.runs.batch import run_trials
from cpgt.runs.observed import ProcessRun
from cpgt.runs.pool import Task
from cpgt.studies.paper.rows import NOTE, ROWS, portions, row_network, row_objectives
from cpgt.theory.quadratics import hessians, limits, tracking_radius
from cpgt.wire.arrays import Floats

EVERY = 10
BEYOND = 500  # rounds after those shown
FITTED = 0.4  # the last part of the rounds shown, which the start no longer affects
STEADY = 0.1  # allowed relative change of the slope between the two halves of the fitted rounds
SAME = 1e-9  # allowed relative difference between a trial as processes and in the batch
LAYER = "zmtp"


class ResidualPortion(NamedTuple):
    residual: Floats  # (kept rounds,): sum over trials
    first_trial: Floats  # (kept rounds, agents, d): x of the first trial


class Curve(NamedTuple):
    """One row of the table."""

    rounds: NDArray[np.int64]
    residual: Floats
    first_trial: Floats
    rate: float
    steadiness: float  # slope of the second half of the fitted rounds over that of the first


def simulate(row: str, rounds: int, first: int, trials: int, seed: int) -> ResidualPortion:
    """One batch of trials. Runs in a worker process."""
    objectives, span = row_objectives(row), {"rounds": rounds + BEYOND, "every": EVERY}
    found = run_trials(row_network(row), objectives, trials=trials, seed=seed, first=first, **span)
    ends = limits(objectives, found.noise)[:, None, :]
    return ResidualPortion(np.linalg.norm(found.x - ends, axis=(2, 3)).sum(axis=1), found.x[:, 0])


def tasks(trials: int, rounds: int, seed: int) -> list[Task]:
    """All rows have the same seed, so the same noise. Trial 0 is `cpgt run ROW --seed SEED`."""
    return [
        Task(simulate, (row, rounds, first, number, seed), (rounds + BEYOND) * number)
        for row in ROWS
        for first, number in portions(trials)
    ]


def curves(results: Sequence[ResidualPortion], trials: int, rounds: int) -> dict[str, Curve]:
    each, shown = len(results) // len(ROWS), np.arange(0, rounds + 1, EVERY)
    return {
        row: _curve(results[i * each : (i + 1) * each], trials, shown) for i, row in enumerate(ROWS)
    }


def _curve(found: Sequence[ResidualPortion], trials: int, rounds: NDArray[np.int64]) -> Curve:
    residual = np.sum([portion.residual for portion in found], axis=0)[: len(rounds)] / trials
    rate, steadiness = fit(rounds, residual)
    return Curve(rounds, residual, found[0].first_trial[: len(rounds)], rate, steadiness)


def fit(rounds: NDArray[np.int64], residual: Floats) -> tuple[float, float]:
    """The rate per round in the last part of a curve, and the steadiness of its slope there.

    A sublinear curve looks straight over a few rounds, but its slope decreases. On the last 40 % of
    the rounds the steadiness is 0.78 for 1/k, 0.88 for exp(-sqrt(k)), and 1 for a linear curve."""
    start = np.searchsorted(rounds, rounds[-1] * (1 - FITTED))
    middle = (start + len(rounds)) // 2
    logs = np.log(residual)
    early = _slope(rounds[start : middle + 1], logs[start : middle + 1])
    late = _slope(rounds[middle:], logs[middle:])
    return float(np.exp(_slope(rounds[start:], logs[start:]))), late / early


def _slope(rounds: NDArray[np.int64], logs: Floats) -> float:
    return float(np.polyfit(rounds, logs, 1)[0])


def predicted_rate(row: str) -> float:
    """The slower of the decay q of the noise and the round without noise and compression."""
    network, each = row_network(row), hessians(row_objectives(row))
    alpha, gamma = network.algorithm.alpha, network.algorithm.gamma
    return max(network.noise.q, tracking_radius(network.topology.weights, each, alpha, gamma))


def checks(found: Mapping[str, Curve], processes: Mapping[str, ProcessRun]) -> list[Check]:
    made = []
    for row, curve in found.items():
        name = row_network(row).name
        linear = curve.rate < 1 and abs(curve.steadiness - 1) <= STEADY
        detail = f"rate {curve.rate:.5f} a round, slope steady to {abs(curve.steadiness - 1):.1%}"
        made.append(Check(f"{name} converges linearly", linear, f"{detail} ({STEADY:.0%} allowed)"))
        difference = largest_difference(curve, processes[row])
        detail = f"largest relative difference {difference:.1e} in {processes[row].rounds} rounds"
        claim = f"{name}: trial 0 as processes equals trial 0 of the batch"
        made.append(Check(claim, difference <= SAME, detail))
    return made


def largest_difference(curve: Curve, run: ProcessRun) -> float:
    """Of x between the batch and the processes, relative to the largest x of the round."""
    x = run.x[curve.rounds]
    error = np.abs(curve.first_trial - x).max(axis=(1, 2)) / np.abs(x).max(axis=(1, 2))
    return float(error.max())


def write(found: Mapping[str, Curve], processes: Mapping[str, ProcessRun], out: Path) -> None:
    names = [row_network(row).name for row in found]
    rounds = next(iter(found.values())).rounds
    table = np.stack([curve.residual for curve in found.values()], axis=1)
    means = ((k, *row) for k, row in zip(rounds.tolist(), table.tolist(), strict=True))
    write_csv(out / "convergence.csv", ["round", *names], means)
    layers = list(next(iter(processes.values())).bytes)
    rows = (
        (row_network(row).name, int(k), *(int(processes[row].bytes[a][k]) for a in layers), value)
        for row, curve in found.items()
        for k, value in zip(curve.rounds, curve.residual.tolist(), strict=True)
    )
    write_csv(out / "bytes.csv", ["algorithm", "round", *layers, "residual"], rows)
    rates = (
        (row_network(r).name, c.rate, predicted_rate(r), c.steadiness) for r, c in found.items()
    )
    write_csv(out / "rates.csv", ["algorithm", "fitted", "predicted", "steadiness"], rates)


def draw(
    found: Mapping[str, Curve], processes: Mapping[str, ProcessRun], trials: int, out: Path
) -> None:
    note, residual = f"{NOTE} Mean of {trials:,} trials.", r"mean $\|x(k) - x_\infty\|_F$"
    with figure(out, "convergence", note=note) as (axes,):
        for i, (row, curve) in enumerate(found.items()):
            label = f"{row_network(row).name}, rate {curve.rate:.4f}"
            axes.semilogy(curve.rounds, curve.residual, label=label, **look(i))
        axes.set(xlabel="round $k$", ylabel=residual)
        axes.legend()
    bytes_note = f"{note} Bytes: frames of one trial run as processes."
    with figure(out, "bytes", note=bytes_note) as (axes,):
        for i, (row, curve) in enumerate(found.items()):
            sent = processes[row].bytes[LAYER][curve.rounds] / 1e6
            axes.semilogy(sent, curve.residual, label=row_network(row).name, **look(i))
        axes.set(xlabel="measured bytes of all edges, with ZMTP framing [MB]", ylabel=residual)
        axes.legend()
