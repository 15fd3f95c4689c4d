"""The accuracy that privacy leaves, on real tables of six hospitals: delta 1e-5, record adjacency.

    python -m bench.accuracy [--sets cancer digits support] [--seeds 10] [--out runs/accuracy]

For every table and epsilon, the mean test accuracy and its standard error over seeds. A seed gives
another split and other noise. Settings are those of the planner, which sees counts of records and
dimensions only. Writes accuracy.txt and accuracy.json.

| column    | what                                                                             |
|-----------|----------------------------------------------------------------------------------|
| cpgt      | the gradient mechanism: six agents in a ring, 4 bits a coordinate                |
| one party | the same mechanism and planner with all records in one place                     |
| alone     | diffprivlib for each hospital separately, the mean; pure epsilon, add or remove  |
| pooled    | diffprivlib with all records in one place                                        |
| state     | the paper's mechanism, two rounds; its step is the best of four on the test set  |
| plain     | all records in one place, not private                                            |

Real processes run seed 0; their states must equal those of the run inside this process to the bit.
scikit-learn, SurvSet and diffprivlib are installed into an environment in the output folder.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.hospitals import NAMED, SETS
from cpgt.agent.objectives.registry import build_objective
from cpgt.agent.privacy.account import epsilon_after
from cpgt.agent.privacy.budget import Claims, make_terms
from cpgt.configuration.network import Network
from cpgt.runs.in_process import run
from cpgt.runs.observed import run_processes
from cpgt.theory.planning.facts import PublicFacts, facts_of
from cpgt.theory.planning.settings import apply_settings, choose_settings
from cpgt.wire.arrays import Floats

# diffprivlib imports names that later versions of scikit-learn do not have
PACKAGES = ("diffprivlib==0.6.6", "scikit-learn==1.5.2", "SurvSet==0.2.11", "pandas<3")
EPSILONS, DELTA, L2 = (1.0, 3.0, 10.0), 1e-5, 1e-3
STATE_ROUNDS, STATE_STEPS = 2, (2.0, 4.0, 8.0, 16.0)
COLUMNS = ("cpgt", "one party", "alone", "pooled", "state", "plain")

Table = dict[str, Floats]


class Split(NamedTuple):
    parts: list[Table]
    test: Table

    @property
    def records(self) -> tuple[int, ...]:
        return tuple(len(part["labels"]) for part in self.parts)

    @property
    def joined(self) -> Split:
        """All records in one place."""
        names = ("A", "labels")
        return Split([{k: np.concatenate([p[k] for p in self.parts]) for k in names}], self.test)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(NAMED))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("runs/accuracy"))
    given = parser.parse_args()
    python = make_environment(given.out / "environment")
    found: dict[str, Any] = {}
    for name in given.sets:
        found[name] = measure(name, given.seeds, given.out, python)
        text = format_table(found, given.seeds)
        print(text, flush=True)
        (given.out / "accuracy.txt").write_text(text + "\n")
        (given.out / "accuracy.json").write_text(json.dumps(found, indent=1))


def make_environment(folder: Path) -> str:
    """The interpreter of an environment with the other libraries."""
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *PACKAGES], check=True)
        (folder / "ready").touch()
    return str(python)


def measure(name: str, seeds: int, out: Path, python: str) -> dict[str, Any]:
    """Accuracies by epsilon and column, one for each seed; bytes of a run."""
    accuracies: dict[str, dict[str, list[float]]] = {
        f"{epsilon:g}": defaultdict(list) for epsilon in EPSILONS
    }
    found: dict[str, Any] = {"accuracy": accuracies, "bytes": {}, "settings": {}}
    for seed in range(seeds):
        folder = out / "data" / str(seed)
        script = [python, "bench/hospitals.py", str(folder), "--seed", str(seed), "--sets", name]
        subprocess.run(script, check=True, stdout=subprocess.DEVNULL)
        split = load_split(folder / name)
        others = run_others(python, folder / name)
        for epsilon in EPSILONS:
            columns = accuracies[f"{epsilon:g}"]
            network = plan(split, epsilon)
            x, sent = run_inside(network, split, seed)
            if seed == 0:
                check_processes(network, folder / name, x)
                found["bytes"][f"{epsilon:g}"] = sent
                found["settings"][f"{epsilon:g}"] = asdict(
                    choose_settings(facts_for(split, epsilon))
                )
            columns["cpgt"].append(accuracy(x, split.test))
            alone = split.joined
            columns["one party"].append(
                accuracy(run_inside(plan(alone, epsilon), alone, seed)[0], split.test)
            )
            columns["state"].append(measure_state(split, epsilon, seed))
            columns["plain"].append(others["not private"])
            for key in ("alone", "pooled"):
                columns[key].append(others[f"{epsilon:g}"][key])
        print(f"{name}, seed {seed}", file=sys.stderr, flush=True)
    found["records"], found["dimension"] = split.records, split.test["A"].shape[1]
    return found


def load_split(folder: Path) -> Split:
    paths = sorted(folder.glob("hospital-*.npz"))
    return Split([_load(path) for path in paths], _load(folder / "test.npz"))


def _load(path: Path) -> Table:
    with np.load(path) as arrays:
        return {"A": arrays["A"], "labels": arrays["labels"]}


def run_others(python: str, folder: Path) -> dict[str, Any]:
    script = [python, "bench/accuracy_baselines.py", str(folder), *map(str, EPSILONS)]
    result: dict[str, Any] = json.loads(
        subprocess.run(script, check=True, capture_output=True).stdout
    )
    return result


def base_network(records: tuple[int, ...]) -> Network:
    """Without privacy; scale makes the average of all f_i the mean loss of all records."""
    agents = len(records)
    tables = {
        "name": "hospitals",
        "rounds": 1,
        "graph": {"kind": "ring" if agents > 2 else "complete", "agents": agents},
        "algorithm": {"kind": "cpgt", "alpha": 1.0},
        "objective": {"kind": "logistic", "l2": L2, "scale": agents / sum(records)},
    }
    return Network.model_validate(tables)


def facts_for(split: Split, epsilon: float) -> PublicFacts:
    network, features = base_network(split.records), split.test["A"].shape[1]
    return facts_of(network, epsilon=epsilon, delta=DELTA, records=split.records, features=features)


def plan(split: Split, epsilon: float) -> Network:
    facts = facts_for(split, epsilon)
    return apply_settings(base_network(split.records), facts, choose_settings(facts))


def run_inside(network: Network, split: Split, seed: int) -> tuple[Floats, dict[str, int]]:
    """x of all agents after the last round, and the bytes on all edges by layer."""
    kind, options = network.objective.kind, network.objective.options
    objectives = [build_objective(kind, options, part) for part in split.parts]
    result = run(network, objectives, seed=seed)
    return result.x[-1], {layer: int(sizes.sum()) for layer, sizes in result.bytes.items()}


def check_processes(network: Network, folder: Path, x: Floats) -> None:
    """Run the network as processes; its states must have the same bits."""
    with tempfile.TemporaryDirectory() as temporary:
        pattern = str(folder.absolute() / "hospital-{id}.npz")
        found = run_processes(
            network.model_copy(update={"data": pattern}), Path(temporary) / "run", seed=0
        )
    if not np.array_equal(found.x[-1], x):
        raise SystemExit(f"{folder.name}: processes ended in other states than this process")


def measure_state(split: Split, epsilon: float, seed: int) -> float:
    networks = [state_network(split, epsilon, step) for step in STATE_STEPS]
    return max(accuracy(run_inside(network, split, seed)[0], split.test) for network in networks)


def state_network(split: Split, epsilon: float, step: float) -> Network:
    """The paper's mechanism with noise that spends epsilon: of the same scale on y, and on x as
    large as a step with that y. Rows have norm 1 at most, so that |gradient| <= scale."""
    base = base_network(split.records)
    scale = base.objective.options["scale"]
    largest = scale * max(split.records) / 4 + L2
    privacy = {
        "mechanism": "state", "adjacency": "record", "sensitivity": 2 * scale,
        "smoothness": largest,
    }  # fmt: skip
    claims = Claims.of(privacy)
    low, high = 1e-9, 1e9
    while high > 1.001 * low:
        middle = math.sqrt(low * high)
        network = _with_noise(base, privacy, step, middle)
        terms = make_terms(claims, network.algorithm_of(1), largest, split.test["A"].shape[1])
        enough = epsilon_after(terms, STATE_ROUNDS).sound <= epsilon
        low, high = (low, middle) if enough else (middle, high)
    return _with_noise(base, privacy, step, high)


def _with_noise(base: Network, privacy: dict[str, Any], step: float, noise: float) -> Network:
    tables = base.model_dump(exclude_none=True)
    tables["rounds"] = STATE_ROUNDS
    tables["algorithm"] = {"kind": "cpgt", "alpha": step, "gamma": 0.5}
    tables["compressor"] = {"kind": "quantize", "bits": 4}
    tables["noise"] = {"s_x": step * noise, "s_y": noise}
    return Network.model_validate({**tables, "privacy": privacy})


def accuracy(x: Floats, test: Table) -> float:
    """The mean over the agents' models."""
    return float(np.mean((x @ test["A"].T > 0) == (test["labels"] > 0)))


def format_table(found: dict[str, Any], seeds: int) -> str:
    lines = [f"Test accuracy, mean (standard error) of {seeds} seeds; delta 1e-5, record adjacency"]
    lines.append(f"{'':26}" + "".join(f"{column:>14}" for column in COLUMNS) + "  payload, kB")
    for name, entry in found.items():
        for epsilon, columns in entry["accuracy"].items():
            cells = "".join(f"{_cell(columns[column]):>14}" for column in COLUMNS)
            size = f"{sum(entry['records'])} x {entry['dimension']}"
            kilobytes = entry["bytes"][epsilon]["payload"] / 1000
            lines.append(f"{name:10}{size:10}eps {epsilon:2}" + cells + f"{kilobytes:14.0f}")
    return "\n".join(lines)


def _cell(values: list[float]) -> str:
    error = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return f"{np.mean(values):.3f} ({error:.3f})".replace("0.", ".")


if __name__ == "__main__":
    main()
