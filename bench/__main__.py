"""`make bench`: the speed of a network of processes, compared with the bare transport."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.codec import measure_encoding, measure_folding
from bench.curve import measure_curve
from bench.gaussian import measure_gaussian
from bench.lockstep import measure_lockstep
from bench.refresh import main as measure_refresh
from bench.star import measure_star
from cpgt.agent.compiled import COMPILED
from cpgt.results.summary import read_summary

REPEATS = 7


def run(*overrides: str, watch: bool = False) -> tuple[float, Usage | None]:
    """One `cpgt run` of the paper's network with changes: rounds per second, usage if watched."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        flags = [word for override in overrides for word in ("--set", override)]
        command = [sys.executable, "-m", "cpgt", "run", "paper", "--no-compare", "--quiet"]
        command += ["--out", str(out)]
        with subprocess.Popen([*command, *flags], stdout=subprocess.DEVNULL) as process:
            usage = measure_usage(process.pid, out) if watch else None
        if process.returncode:
            raise SystemExit(f"the run failed: {' '.join(command + flags)}")
        summary = read_summary(out)
        assert summary and summary.rounds_per_second
        return summary.rounds_per_second, usage


class Usage(NamedTuple):
    agent_memory: int  # resident bytes of the largest agent
    coordinator_share: float  # of the CPU time of all processes
    cpu: float  # seconds a round, all agents together


def measure_usage(parent: int, out: Path) -> Usage:
    """Between two readings while rounds run. (Reading takes CPU time, so this run is not timed.)"""
    while not _rounds_played(out):
        time.sleep(0.05)
    processes = {p: p.cmdline()[4] for p in psutil.Process(parent).children(recursive=True)}
    readings = []
    for pause in (4.0, 0.0):
        used = {"rounds": float(_rounds_played(out)), "coordinator": 0.0, "agent": 0.0}
        for process, role in processes.items():
            used[role] += sum(process.cpu_times()[:2])
        readings.append(used)
        memory = max(p.memory_info().rss for p, role in processes.items() if role == "agent")
        time.sleep(pause)
    grown = {role: readings[1][role] - readings[0][role] for role in readings[0]}
    both = grown["coordinator"] + grown["agent"]
    return Usage(memory, grown["coordinator"] / both, grown["agent"] / grown["rounds"])


def _rounds_played(out: Path) -> int:
    path = out / "windows.csv"
    rows = path.read_text().splitlines()[1:] if path.exists() else []
    return int(rows[-1].split(",")[0]) if rows else 0


def measure_speed() -> None:
    print(
        "Six agents, the paper's graph, d = 10: "
        "bare XPUB/SUB + msgpack, and CPGT (2-bit quantizer, noise), under the same scheduler"
    )
    print("  compiled core" if COMPILED else "  NO compiled core: installed without a C compiler")
    ratios: list[float] = []
    cpu: list[float] = []
    for i in range(REPEATS):
        before, ours, after = (
            measure_lockstep(5000),
            run("rounds=6000")[0],
            measure_lockstep(5000),
        )
        bare = (before.speed + after.speed) / 2
        cpu += [before.cpu, after.cpu]
        ratios.append(ours / bare)
        speeds = f"bare {bare:6.0f} rounds/s   cpgt {ours:6.0f} rounds/s"
        print(f"  {i + 1}: {speeds}   ratio {ratios[-1]:.3f}")
    middle, low, high = statistics.median(ratios), min(ratios), max(ratios)
    print(f"  ratio, median of {REPEATS}: {middle:.3f} (lowest {low:.3f}, highest {high:.3f})")
    _, usage = run("rounds=20000", watch=True)  # enough rounds for both readings
    assert usage
    bare_cpu = statistics.median(cpu)
    print(
        f"  CPU time of a round, all six agents: bare {1e3 * bare_cpu:.2f} ms, "
        f"cpgt {1e3 * usage.cpu:.2f} ms ({usage.cpu / bare_cpu:.2f} times)"
    )
    print(f"  largest agent: {usage.agent_memory / 1e6:.0f} MB resident")
    print(f"  coordinator: {usage.coordinator_share:.1%} of the CPU time of all processes")


def measure_dimensions() -> None:
    print("Six agents, the paper's graph, growing d (f_i and gamma scaled so that it converges)")
    for dimension, rounds in ((10, 4000), (1_000, 2000), (100_000, 60)):
        scale, gamma = 10 / dimension / 36, min(0.2, 2 / dimension)
        tame = (f"objective.scale={scale}", f"algorithm.gamma={gamma}")
        data = (f"synthetic.dimension={dimension}", "synthetic.rows=6")
        speed = run(f"rounds={rounds}", "window=20", *tame, *data)[0]
        print(f"  d = {dimension:7,}: {speed:8.1f} rounds/s")


def measure_rings() -> None:
    print("A ring of growing size, d = 10: time per agent-round should stay flat")
    first = None
    for agents, rounds in ((6, 8000), (24, 2000), (48, 1000)):
        speed, _ = run(f"rounds={rounds}", "graph.kind=ring", f"graph.agents={agents}")
        each = 1e6 / (speed * agents)
        first = first or each
        line = f"  {agents:2} agents: {speed:6.0f} rounds/s  {each:5.0f} us an agent-round"
        print(f"{line}  x {each / first:.2f}")


if __name__ == "__main__":
    measure_speed()
    measure_dimensions()
    measure_rings()
    measure_curve()
    measure_encoding()
    measure_folding()
    measure_gaussian()
    measure_refresh()
    measure_star()
