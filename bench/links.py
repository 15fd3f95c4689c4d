"""`make bench-links`: the seconds that compression saves on slow links. Needs root, to make hosts.

A coordinator and six agents, each on a host with a link of 1 Mbit/s in both directions, with keys,
run the network `quadratic` (d = 1,000) to a relative residual of 1e-6: with 4 bits, as shipped, and
uncompressed. The uncompressed network has the alpha and gamma of a grid that need the fewest rounds
(cpgt.studies.bandwidth.contenders). EXTRA has the best of as many alphas; it sends one vector a
round, and gradient tracking sends two. The clock runs from the start of the first agent to the last
round of the last agent, without the time to connect.
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
from cpgt.runs.folder import agent_folder
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
REPEATS = 3  # of the compressed run, which takes seconds only
FIGURES = Path(__file__).parents[1] / "docs" / "figures"


class TimedRun(NamedTuple):
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
    return min(zip(needed, tried, strict=True), key=lambda pair: pair[0])[1]


def time_run(
    hosts: Hosts, label: str, network: Network, objectives: Sequence[Objective]
) -> TimedRun:
    rounds = rounds_to(network, objectives, TARGET, SEED, network.rounds)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        run_on_hosts(hosts, network.model_copy(update={"rounds": int(rounds)}), Path(folder), out)
        summary = read_summary(out)
        assert summary
        assert not summary.bytes.kernel.uncheckable, "slow, but no connection was lost"
        run = read_run(network, out, summary)
    distance = np.linalg.norm(run.x - solve(objectives), axis=(1, 2))
    residual = distance / distance[0]
    assert residual[-1] <= TARGET < residual[-2], "the same bits as in one process"
    return TimedRun(label, run.seconds, residual, float(run.bytes["zmtp"][-1]) / 1e6)


def run_on_hosts(hosts: Hosts, network: Network, folder: Path, out: Path) -> None:
    """The coordinator on host 0, agent i on host i."""
    (folder / "given.toml").write_text(network.to_toml(), encoding="utf-8")
    parties, endpoint = folder / "parties", f"tcp://{hosts.address(0)}:5555"
    file = parties / "network.toml"
    for made in (["keys", "all"], ["data"]):
        finish([start_cpgt(folder, *made, "given.toml", "--out", "parties")], folder)
    key = parties / "coordinator" / "private.key"
    command: list[str | Path] = ["coordinator", file, "--bind", endpoint, "--key", key]
    command += ["--out", out]
    started = [start_cpgt(folder, *command, on=hosts.on(0))]
    for agent in network.agents:
        own = parties / str(agent)
        command = ["agent", str(agent), "--coordinator", endpoint, "--network", file]
        command += ["--key", own / "private.key", "--data", own / "data.npz"]
        command += ["--seed", str(SEED), "--observe", "--out", agent_folder(out, agent)]
        started.append(start_cpgt(folder, *command, on=hosts.on(agent)))
    finish(started, folder)


def start_cpgt(
    folder: Path, *arguments: str | Path, on: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    command = [*on, sys.executable, "-m", "cpgt", *map(str, arguments)]
    with (folder / LOG).open("ab") as log:
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)


def finish(processes: Sequence[subprocess.Popen[bytes]], folder: Path) -> None:
    try:
        codes = [process.wait() for process in processes]
    finally:
        for process in processes:
            process.kill()  # after Ctrl-C some still run
    if any(codes):
        raise SystemExit(f"a run failed:\n{(folder / LOG).read_text()}")


def draw_links(runs: Sequence[TimedRun]) -> None:
    note = "Six hosts with links of 1 Mbit/s, one agent each, CURVE, d = 1,000; `make bench-links`"
    with figure(FIGURES, "links", note=note, kinds=("png",)) as (axes,):
        for i, run in enumerate(runs):
            label = f"{run.label}: {run.total:.0f} s"
            axes.loglog(run.seconds[1:], run.residual[1:], label=label, **look(i))
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
    contenders = {
        f"uncompressed (alpha {alpha:.3g}, gamma {gamma:g})": best,
        f"EXTRA, uncompressed (alpha {extra.algorithm.alpha:.3g})": extra,
    }
    label = "gradient tracking, 4 bits"
    with Hosts(1 + len(network.agents), rate=RATE) as hosts:
        ours = [time_run(hosts, label, network, objectives) for _ in range(REPEATS)]
        others = [time_run(hosts, *contender, objectives) for contender in contenders.items()]
    median = sorted(ours, key=lambda run: run.total)[REPEATS // 2]
    for run in (median, *others):
        print(
            f"  {run.label:42} {len(run.residual) - 1:4} rounds {run.megabytes:8.2f} MB"
            f" {run.total:8.1f} s   x {run.total / median.total:.1f}"
        )
    print(f"  (4 bits: median of {', '.join(f'{run.total:.1f} s' for run in ours)})")
    draw_links([median, *others])


if __name__ == "__main__":
    main()
