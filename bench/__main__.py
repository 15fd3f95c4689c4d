"""`make bench`: how fast a network of processes is, against the bare transport, all in one run."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from bench.lockstep import measure

REPEATS = 5


class Sample:
    """One `cpgt run`, with what its processes took from the machine while rounds were played."""

    def __init__(self, *overrides: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            flags = [word for override in overrides for word in ("--set", override)]
            command = [
                sys.executable,
                "-m",
                "cpgt",
                "run",
                "paper",
                "--no-compare",
                "--quiet",
                "--out",
                str(out),
            ]
            with subprocess.Popen([*command, *flags]) as process:
                self.agent_memory, self.coordinator_share = self._watch(process)
            if process.returncode:
                raise SystemExit(f"the run failed: {' '.join(command + flags)}")
            summary: dict[str, Any] = json.loads((out / "summary.json").read_text())
        self.rounds_per_second: float = summary["rounds_per_second"]
        self.agents: int = summary["agents"]

    @staticmethod
    def _watch(process: subprocess.Popen[bytes]) -> tuple[int, float]:
        """The largest agent's memory, and the coordinator's share of all CPU time after the start-up."""
        memory, readings = 0, []
        while process.poll() is None:
            used: dict[str, float] = {"coordinator": 0.0, "agent": 0.0}
            try:
                for child in psutil.Process(process.pid).children(recursive=True):
                    role = child.cmdline()[3]
                    times = child.cpu_times()
                    used[role] += times.user + times.system
                    memory = max(memory, child.memory_info().rss if role == "agent" else 0)
            except (psutil.Error, IndexError):
                continue  # one of them has just come or gone
            readings.append(used)
            time.sleep(0.1)
        steady = readings[len(readings) // 2 : -2]  # the first half holds the imports
        if len(steady) < 2:
            return memory, float("nan")
        grown = {role: steady[-1][role] - steady[0][role] for role in steady[0]}
        return memory, grown["coordinator"] / sum(grown.values())


def yardstick() -> None:
    print(
        "Six agents, the paper's graph, d = 10: bare XPUB/SUB + msgpack against CPGT (2-bit quantizer, noise)"
    )
    ratios, memory, shares = [], 0, []
    for i in range(REPEATS):
        before, sample, after = measure(5000), Sample("rounds=6000"), measure(5000)
        bare = (before + after) / 2
        ratios.append(sample.rounds_per_second / bare)
        memory = max(memory, sample.agent_memory)
        shares.append(sample.coordinator_share)
        ours = sample.rounds_per_second
        print(f"  {i + 1}: bare {bare:6.0f} rounds/s   cpgt {ours:6.0f} rounds/s   ratio {ratios[-1]:.3f}")
    middle, low, high = statistics.median(ratios), min(ratios), max(ratios)
    print(f"  ratio, median of {REPEATS}: {middle:.3f} (lowest {low:.3f}, highest {high:.3f})")
    print(f"  largest agent: {memory / 1e6:.0f} MB resident")
    print(f"  coordinator: {statistics.median(shares):.1%} of the CPU time of all processes")


def dimensions() -> None:
    print("Six agents, the paper's graph, growing d")
    for dimension, rounds in ((10, 4000), (1_000, 2000), (100_000, 60)):
        sample = Sample(
            f"rounds={rounds}", f"synthetic.dimension={dimension}", "synthetic.rows=6", "window=20"
        )
        print(f"  d = {dimension:7,}: {sample.rounds_per_second:8.1f} rounds/s")


def sizes() -> None:
    print("A ring of growing size, d = 10: time per agent-round should stay flat")
    first = None
    for agents, rounds in ((6, 4000), (24, 1000), (48, 500)):
        sample = Sample(f"rounds={rounds}", "graph.kind=ring", f"graph.agents={agents}")
        each = 1e6 / (sample.rounds_per_second * agents)
        first = first or each
        speed, growth = sample.rounds_per_second, each / first
        print(f"  {agents:2} agents: {speed:7.0f} rounds/s   {each:5.0f} us an agent-round   x {growth:.2f}")


if __name__ == "__main__":
    yardstick()
    dimensions()
    sizes()
