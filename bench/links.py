"""`make bench-links`: what compression is worth on slow links, in seconds. Needs root, to make hosts.

A coordinator and six agents, each on a host behind a link of 1 Mbit/s in both directions, with keys, run the
network `quadratic` (d = 1,000) until a relative residual of 1e-6: with 4 bits, as it is, and uncompressed.
That one has the alpha and the gamma that need the fewest rounds of a grid (cpgt.bandwidth.contenders). EXTRA
is there too, with the best of as many alphas: it sends one vector a round where gradient tracking sends two.
The clock runs from the first agent's start to the last agent's last round; connections are made before.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cpgt import Network, load_network
from cpgt.agent.objectives import Objective
from cpgt.configuration.data import build_objectives
from cpgt.results.figures import figure, look
from cpgt.results.optimum import solve
from cpgt.results.summary import read_summary
from cpgt.runs.launch import agent_folder
from cpgt.runs.observed import read_run
from cpgt.studies.bandwidth.contenders import (
    ALPHA_FACTORS,
    GAMMAS,
    rounds_to,
    tune_step_sizes,
    uncompressed,
)
from cpgt.wire.arrays import Floats
from tests.system.hosts import Hosts

RATE, TARGET, SEED = "1mbit", 1e-6, 1
LOG = "log.txt"
EXTRA = ("algorithm.kind=extra", "algorithm.gamma=1.0", 'compressor={kind="identity"}')
REPEATS = 3  # of the run that takes seconds only
FIGURES = Path(__file__).parents[1] / "docs" / "figures"


class Timed(NamedTuple):
    label: str
    seconds: Floats  # (rounds + 1,)
    residual: Floats
    megabytes: float  # of all frames

    @property
    def total(self) -> float:
        return float(self.seconds[-1])


def best_extra(objectives: Sequence[Objective], around: float) -> Network:
    tries = len(GAMMAS) * len(ALPHA_FACTORS)
    tried = [
        load_network("quadratic", [*EXTRA, f"algorithm.alpha={alpha}"])
        for alpha in np.geomspace(around * ALPHA_FACTORS[0], around * ALPHA_FACTORS[-1], tries)
    ]
    needed = [rounds_to(network, objectives, TARGET, SEED, network.rounds) for network in tried]
    return min(zip(needed, tried, strict=True), key=lambda pair: pair[0] or sys.maxsize)[1]


def timed(hosts: Hosts, label: str, network: Network, objectives: Sequence[Objective]) -> Timed:
    rounds = rounds_to(network, objectives, TARGET, SEED, network.rounds)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        play(hosts, network.model_copy(update={"rounds": rounds}), Path(folder), out)
        summary = read_summary(out)
        assert summary
        assert not summary["bytes"]["kernel"]["uncheckable"], "slow, but no connection was lost"
        run = read_run(network, out, summary)
    distance = np.linalg.norm(run.x - solve(objectives), axis=(1, 2))
    residual = distance / distance[0]
    assert residual[-1] <= TARGET < residual[-2], "the same bits as in one process"
    return Timed(label, run.seconds, residual, float(run.bytes["zmtp"][-1]) / 1e6)


def play(hosts: Hosts, network: Network, folder: Path, out: Path) -> None:
    """Run it as one would by hand: the coordinator on host 0, agent i on host i."""
    (folder / "given.toml").write_text(network.to_toml(), encoding="utf-8")
    parties, file, endpoint = (
        folder / "parties",
        folder / "parties/network.toml",
        f"tcp://{hosts.address(0)}:5555",
    )
    for made in (["keys", "all"], ["data"]):
        finish([cpgt(folder, *made, "given.toml", "--out", "parties")], folder)
    key = parties / "coordinator" / "private.key"
    started = [
        cpgt(
            folder,
            "coordinator",
            file,
            "--bind",
            endpoint,
            "--key",
            key,
            "--out",
            out,
            on=hosts.on(0),
        )
    ]
    for agent in network.agents:
        own = parties / str(agent)
        party = ("--network", file, "--key", own / "private.key", "--data", own / "data.npz")
        watched = ("--seed", str(SEED), "--observe", "--out", agent_folder(out, agent))
        command = ("agent", str(agent), "--coordinator", endpoint, *party, *watched)
        started.append(cpgt(folder, *command, on=hosts.on(agent)))
    finish(started, folder)


def cpgt(folder: Path, *arguments: str | Path, on: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    command = [*on, sys.executable, "-m", "cpgt", *map(str, arguments)]
    with (folder / LOG).open("ab") as log:
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)


def finish(processes: Sequence[subprocess.Popen[bytes]], folder: Path) -> None:
    try:
        codes = [process.wait() for process in processes]
    finally:
        for process in processes:
            process.kill()  # if there was a Ctrl-C
    if any(codes):
        raise SystemExit(f"a run failed:\n{(folder / LOG).read_text()}")


def draw(shown: Sequence[Timed]) -> None:
    note = "Six agents on hosts of their own behind links of 1 Mbit/s, CURVE, d = 1,000; `make bench-links`"
    with figure(FIGURES, "links", note=note, kinds=("png",)) as (axes,):
        for i, one in enumerate(shown):
            axes.loglog(
                one.seconds[1:],
                one.residual[1:],
                label=f"{one.label}: {one.total:.0f} s",
                **look(i),
            )
        axes.axhline(TARGET, color="0.6", linewidth=0.8)
        axes.set(xlabel="seconds", ylabel="relative residual")
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0))


def main() -> None:
    network = load_network("quadratic")
    objectives = build_objectives(network, {})
    best = tune_step_sizes(uncompressed(network), objectives, TARGET, SEED)
    alpha, gamma = best.algorithm.alpha, best.algorithm.gamma
    extra = best_extra(objectives, alpha)
    print(f"Six agents, links of 1 Mbit/s, d = 1,000: seconds to a relative residual of {TARGET:g}")
    with Hosts(1 + len(network.agents), rate=RATE) as hosts:
        ours = [
            timed(hosts, "gradient tracking, 4 bits", network, objectives) for _ in range(REPEATS)
        ]
        middle = sorted(ours, key=lambda one: one.total)[REPEATS // 2]
        others = [
            timed(hosts, f"uncompressed (alpha {alpha:.3g}, gamma {gamma:g})", best, objectives),
            timed(
                hosts, f"EXTRA, uncompressed (alpha {extra.algorithm.alpha:.3g})", extra, objectives
            ),
        ]
    for one in (middle, *others):
        print(
            f"  {one.label:42} {len(one.residual) - 1:4} rounds {one.megabytes:8.2f} MB {one.total:8.1f} s"
            f"   x {one.total / middle.total:.1f}"
        )
    print(f"  (4 bits: median of {', '.join(f'{one.total:.1f} s' for one in ours)})")
    draw([middle, *others])


if __name__ == "__main__":
    main()
