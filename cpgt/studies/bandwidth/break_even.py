"""The dimension from which on compression pays on a link, headers included, by measurement."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from cpgt.configuration.network import Network
from cpgt.results.summary import read_summary
from cpgt.results.traffic import LINK
from cpgt.runs.experiment import Experiment
from cpgt.runs.launch import run_coordinator
from cpgt.studies.bandwidth.contenders import Contender, replace_sections, uncompressed

MAX_DIMENSION = 1 << 14
ROUNDS = 60
MIN_GAMMA = 1e-3


class RoundSizes(NamedTuple):
    """Bytes a round on all links, with headers."""

    dimension: int
    compressed: float
    uncompressed: float

    def pays(self, price: float) -> bool:
        """`price` is how many times the rounds compression needs."""
        return self.compressed * price < self.uncompressed


def find_break_even(
    contender: Contender, dimension: int, price: float, out: Path, search: Path
) -> list[RoundSizes]:
    """Measure at doubled dimensions until compression pays."""
    found: list[RoundSizes] = []
    while (dimension := 2 * dimension) <= MAX_DIMENSION:
        network = _resize(contender.network, dimension)
        pair = (network, uncompressed(network))
        sizes = [_link_bytes(n, out / f"{dimension}-{n.compressor.kind}", search) for n in pair]
        if None in sizes:
            break
        found.append(RoundSizes(dimension, *(size for size in sizes if size is not None)))
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
