"""From which dimension on compression pays on a link, headers included: measured at growing dimensions."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cpgt.configuration.loading import parse_network
from cpgt.configuration.network import Network
from cpgt.results.summary import read_summary
from cpgt.results.traffic import LINK
from cpgt.runs.experiment import Experiment
from cpgt.runs.launch import run_coordinator
from cpgt.studies.bandwidth.contenders import Contender, uncompressed

LARGEST = 1 << 14
ROUNDS = 60
LEAST_GAMMA = 1e-3


class Step(NamedTuple):
    dimension: int
    compressed: float  # bytes a round on all links, with headers
    uncompressed: float


def climb(
    contender: Contender, dimension: int, price: float, out: Path, search: Path
) -> list[Step]:
    """Measure at twice the dimension, and twice again, until a compressed round, `price` times over, is less
    than an uncompressed one. `price` is how many more rounds compression needs, as found for this problem."""
    steps: list[Step] = []
    dimension *= 2
    while dimension <= LARGEST:
        network = _at(contender.network, dimension)
        pair = (network, uncompressed(network))
        sizes = [_link_bytes(n, out / f"{dimension}-{n.compressor.kind}", search) for n in pair]
        if None in sizes:
            return steps
        steps.append(Step(dimension, *(size for size in sizes if size is not None)))
        if steps[-1].compressed * price < steps[-1].uncompressed:
            return steps
        dimension *= 2
    return steps


def pays(step: Step, price: float) -> bool:
    return step.compressed * price < step.uncompressed


def _at(network: Network, dimension: int) -> Network:
    """The network's compressor and graph, with messages of that dimension: those of a synthetic quadratic, at
    a gamma at which no compressor makes it diverge."""
    tables = network.model_dump(exclude_none=True, mode="json")
    gamma = max(0.5 * (1.0 - network.algorithm_of(1).compressor.phi(dimension)), LEAST_GAMMA)
    tables |= {
        "rounds": ROUNDS,
        "window": ROUNDS // 3,
        "algorithm": {"kind": "cpgt", "alpha": 0.05, "gamma": gamma},
        "noise": {},
        "stop": {},
        "objective": {"kind": "quadratic"},
        "synthetic": {"kind": "quadratic", "dimension": dimension, "seed": 1},
    }
    for private in ("data", "privacy"):
        tables.pop(private, None)
    return parse_network(tables)


def _link_bytes(network: Network, out: Path, search: Path) -> float | None:
    out.mkdir(parents=True)
    if run_coordinator(network, out, Experiment(), quiet=True, search=search):
        return None
    summary = read_summary(out)
    return summary.bytes.per_round[LINK] if summary else None
