"""Other settings than those of the planner, on nine real tables: what would be better or worse?

    python -m bench.accuracy_settings [--seeds 2] [--out runs/accuracy]

Every variant changes one setting. Its row has means over all tables, epsilon 1, 3, 10 and seeds:
test accuracy, and the mean loss of a record above that of the optimum (arithmetic and geometric
mean). Noise comes from numpy, as in rehearsals, so that this takes minutes. "rehearsed" takes, for
each table, the step that is best on synthetic records of the same shape.
"""

from __future__ import annotations

import argparse
import math
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from bench.accuracy import (
    EPSILONS,
    Split,
    accuracy,
    base_network,
    facts_for,
    load_split,
    make_environment,
)
from bench.hospitals import NAMED, SETS
from cpgt.agent.objectives.registry import build_objective
from cpgt.agent.privacy.oracle import GradientTerms
from cpgt.results.optimum import solve
from cpgt.theory.planning.facts import PublicFacts
from cpgt.theory.planning.settings import REACH, Settings, apply_settings, choose_settings
from cpgt.theory.planning.synthetic_rehearsal import (
    NoisyGradients,
    last_x,
    mean_gains,
    plan_for,
    rehearse,
)

TRIALS = 4
Choice = Callable[[PublicFacts], Settings]


def with_reach(reach: float) -> Choice:
    return lambda facts: choose_settings(facts, reach)


def with_gradients(number: int) -> Choice:
    """The same distance altogether, in more or fewer steps."""

    def choose(facts: PublicFacts) -> Settings:
        planned = choose_settings(facts)
        return replace(planned, gradients=number, alpha=planned.alpha * planned.gradients / number)

    return choose


def with_momentum(momentum: float) -> Choice:
    """The same distance altogether."""

    def choose(facts: PublicFacts) -> Settings:
        planned = choose_settings(facts)
        factor = (1 - momentum) / (1 - planned.momentum)
        return replace(planned, momentum=momentum, alpha=planned.alpha * factor)

    return choose


def with_clip(factor: float) -> Choice:
    """The step makes up for it: where all gradients are clipped, nothing changes."""

    def choose(facts: PublicFacts) -> Settings:
        planned = choose_settings(facts)
        alpha = planned.alpha / factor if factor < 1 else planned.alpha
        return replace(planned, clip=factor * planned.clip, alpha=alpha)

    return choose


def with_mixing(every: int, bits: int = 4) -> Choice:
    return lambda facts: replace(choose_settings(facts), every=every, bits=bits)


def rehearsed(facts: PublicFacts) -> Settings:
    network = base_network(facts.records)
    reaches = [REACH * factor for factor in (1 / 4, 1 / 2, 1, 2)]
    gains = []
    for reach in reaches:
        found = rehearse(plan_for(network, facts, reach), facts)
        gains.append(found.start - found.private)
    return choose_settings(facts, reaches[int(np.argmax(gains))])


VARIANTS: dict[str, Choice] = {
    "as planned": choose_settings,
    "always 1 / L": with_reach(math.inf),
    "reach 2": with_reach(2.0),
    "reach 4": with_reach(4.0),
    "reach 16": with_reach(16.0),
    "T 10": with_gradients(10),
    "T 40": with_gradients(40),
    "no momentum": with_momentum(0.0),
    "momentum 0.5": with_momentum(0.5),
    "momentum 0.9": with_momentum(0.9),
    "clip 0.25": with_clip(0.5),
    "clip 1": with_clip(2.0),
    "R 2": with_mixing(2),
    "R 8": with_mixing(8),
    "R 8, 8 bits": with_mixing(8, 8),
    "rehearsed": rehearsed,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/accuracy"))
    given = parser.parse_args()
    splits = load_splits(given.seeds, given.out)
    header = f"{'':14}  accuracy: all   named  others   loss above the optimum: mean  geometric"
    lines = [header]
    print(header, flush=True)
    for name, choose in VARIANTS.items():
        lines.append(f"{name:14}  {row(choose, splits)}")
        print(lines[-1], flush=True)
    (given.out / "settings.txt").write_text("\n".join(lines) + "\n")


def load_splits(seeds: int, out: Path) -> dict[tuple[str, int], Split]:
    python = make_environment(out / "environment")
    for seed in range(seeds):
        folder = out / "data" / str(seed)
        script = [python, "bench/hospitals.py", str(folder), "--seed", str(seed), "--sets", *SETS]
        subprocess.run(script, check=True, stdout=subprocess.DEVNULL)
    return {
        (name, seed): load_split(out / "data" / str(seed) / name)
        for name in SETS
        for seed in range(seeds)
    }


def row(choose: Choice, splits: dict[tuple[str, int], Split]) -> str:
    keys = [(name, seed, epsilon) for name, seed in splits for epsilon in EPSILONS]
    found = np.array([measure(choose, splits[n, seed], seed, e) for n, seed, e in keys])
    named = np.array([name in NAMED for name, _, _ in keys])
    right, losses = found.T
    means = f"{right.mean():.4f}  {right[named].mean():.4f}  {right[~named].mean():.4f}"
    return f"        {means}   {losses.mean():29.4f} {np.exp(np.log(losses).mean()):10.4f}"


def measure(choose: Choice, split: Split, seed: int, epsilon: float) -> tuple[float, float]:
    """Test accuracy; mean loss of a training record above the optimum."""
    facts = facts_for(split, epsilon)
    settings = choose(facts)
    network = apply_settings(base_network(split.records), facts, settings)
    options = network.objective.options
    objectives = [build_objective("logistic", options, part) for part in split.parts]
    terms = GradientTerms(*facts.budget, "record", settings.clip, settings.gradients)
    noised = [NoisyGradients(f, terms, (seed, agent)) for agent, f in enumerate(objectives)]
    x = last_x(network, noised, TRIALS)
    optimum = solve(objectives)
    excess = mean_gains(objectives, optimum) - mean_gains(objectives, x).mean()
    return accuracy(x, split.test), float(excess)


if __name__ == "__main__":
    main()
