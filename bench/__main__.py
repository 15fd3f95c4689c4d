"""`make bench`: how fast a network of processes is, against the bare transport, all in one run."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.codec import encoding, folding
from bench.curve import curve
from bench.lockstep import measure
from bench.star import star
from cpgt.agent.compiled import COMPILED
from cpgt.results.summary import read_summary

REPEATS = 7


def run(*overrides: str, watch: bool = False) -> tuple[float, Usage | None]:
    """One `cpgt run` of the paper's network with changes: rounds per second, and its usage if asked for."""
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
            usage = measure_usage(process.pid, out) if watch else None
        if process.returncode:
            raise SystemExit(f"the run failed: {' '.join(command + flags)}")
        summary = read_summary(out)
        assert summary and summary.rounds_per_second
        return summary.rounds_per_second, usage


class Usage(NamedTuple):
    agent_memory: int  # of the largest agent, resident
    coordinator_share: float  # of the CPU time of all processes while rounds were played


def measure_usage(parent: int, out: Path) -> Usage:
    """Two readings, once rounds are being played. (Reading costs CPU time: such a run is not timed.)"""
    traffic_log = out / "bytes.csv"
    while not traffic_log.exists() or traffic_log.stat().st_size < 1000:
        time.sleep(0.05)
    processes = {p: p.cmdline()[4] for p in psutil.Process(parent).children(recursive=True)}
    readings = []
    for pause in (2.0, 0.0):
        used = {"coordinator": 0.0, "agent": 0.0}
        for process, role in processes.items():
            used[role] += sum(process.cpu_times()[:2])
        readings.append(used)
        memory = max(p.memory_info().rss for p, role in processes.items() if role == "agent")
        time.sleep(pause)
    grown = {role: readings[1][role] - readings[0][role] for role in readings[0]}
    return Usage(memory, grown["coordinator"] / sum(grown.values()))


def yardstick() -> None:
    print(
        "Six agents, the paper's graph, d = 10: bare XPUB/SUB + msgpack, and CPGT (2-bit quantizer, noise)"
    )
    print(
        "  compiled core"
        if COMPILED
        else "  NO compiled core: it was installed without a C compiler"
    )
    ratios = []
    for i in range(REPEATS):
        before, ours, after = (
            measure(5000),
            run("rounds=6000")[0],
            measure(5000),
        )
        bare = (before + after) / 2
        ratios.append(ours / bare)
        print(
            f"  {i + 1}: bare {bare:6.0f} rounds/s   cpgt {ours:6.0f} rounds/s   ratio {ratios[-1]:.3f}"
        )
    middle, low, high = statistics.median(ratios), min(ratios), max(ratios)
    print(f"  ratio, median of {REPEATS}: {middle:.3f} (lowest {low:.3f}, highest {high:.3f})")
    _, usage = run("rounds=20000", watch=True)  # they last longer than the readings take
    assert usage
    print(f"  largest agent: {usage.agent_memory / 1e6:.0f} MB resident")
    print(f"  coordinator: {usage.coordinator_share:.1%} of the CPU time of all processes")


def dimensions() -> None:
    print("Six agents, the paper's graph, growing d (f_i and gamma scaled so that it converges)")
    for dimension, rounds in ((10, 4000), (1_000, 2000), (100_000, 60)):
        tame = (
            f"objective.scale={10 / dimension / 36}",
            f"algorithm.gamma={min(0.2, 2 / dimension)}",
        )
        data = (f"synthetic.dimension={dimension}", "synthetic.rows=6")
        speed = run(f"rounds={rounds}", "window=20", *tame, *data)[0]
        print(f"  d = {dimension:7,}: {speed:8.1f} rounds/s")


def sizes() -> None:
    print("A ring of growing size, d = 10: time per agent-round should stay flat")
    first = None
    for agents, rounds in ((6, 8000), (24, 2000), (48, 1000)):
        speed, _ = run(f"rounds={rounds}", "graph.kind=ring", f"graph.agents={agents}")
        each = 1e6 / (speed * agents)
        first = first or each
        line = f"  {agents:2} agents: {speed:6.0f} rounds/s  {each:5.0f} us an agent-round"
        print(f"{line}  x {each / first:.2f}")


if __name__ == "__main__":
    yardstick()
    dimensions()
    sizes()
    curve()
    encoding()
    folding()
    star()
