"""The cost of encryption: the paper's network on this machine, plain and with CURVE."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from cpgt.results.summary import Summary, read_summary

CPGT = (sys.executable, "-m", "cpgt")
AGENTS, REPEATS, ROUNDS = range(1, 7), 5, 4000


def measure_curve() -> None:
    print("The same network with agents started one by one, plain and with CURVE on every socket")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for command in ("data", "keys all"):
            subprocess.run(
                [*CPGT, *command.split(), "paper", "--set", f"rounds={ROUNDS}", "--out", folder],
                check=True,
                stdout=subprocess.DEVNULL,
            )
        for i in range(REPEATS):
            plain, secured = (
                _run(Path(folder), f"{i}-{keys}", keys=keys) for keys in (False, True)
            )
            before, after = plain.rounds_per_second, secured.rounds_per_second
            assert before and after
            ratios.append(after / before)
            print(
                f"  {i + 1}: plain {before:6.0f} rounds/s   "
                f"CURVE {after:6.0f} rounds/s   ratio {ratios[-1]:.3f}"
            )
    print(f"  ratio, median of {REPEATS}: {statistics.median(ratios):.3f}")
    for name, summary in (("plain", plain), ("CURVE", secured)):
        sizes = summary.bytes.per_round
        line = "   ".join(
            f"{layer} {sizes[layer]:7.1f}" for layer in ("message", "zmtp", "tcp", "link")
        )
        print(f"  bytes a round, all edges, {name}:   {line}")


def _run(folder: Path, name: str, *, keys: bool) -> Summary:
    out, network = folder / "runs" / name, str(folder / "network.toml")

    def key(party: object) -> list[str]:
        return ["--key", str(folder / str(party) / "private.key")] if keys else []

    coordinate = ["coordinator", network, "--bind", "tcp://127.0.0.1:*", "--out", str(out)]
    coordinator = subprocess.Popen(
        [*CPGT, *coordinate, *key("coordinator")],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert coordinator.stderr
    endpoint = next(line.split()[-1] for line in coordinator.stderr if "listening on" in line)
    agents = [
        subprocess.Popen(
            [
                *(*CPGT, "agent", str(agent), "--coordinator", endpoint, "--network", network),
                *(*key(agent), "--data", str(folder / str(agent) / "data.npz")),
                *("--out", str(out / "agents" / str(agent))),
            ],
            stderr=subprocess.DEVNULL,
        )
        for agent in AGENTS
    ]
    coordinator.communicate()
    if coordinator.returncode or any(agent.wait() for agent in agents):
        raise SystemExit(f"the run failed: {out}")
    summary = read_summary(out)
    assert summary
    return summary


if __name__ == "__main__":
    measure_curve()
