"""The cost of a journal: rounds per second with it, over those without it.

`python -m bench.journal`. Both kinds of runs alternate, so that a machine that is busy slows both.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cpgt.results.summary import read_summary

REPEATS = 5
CASES = {
    "d = 10": ["rounds=6000"],
    "d = 100,000": [
        "rounds=60", "window=20", "synthetic.dimension=100000", "synthetic.rows=6",
        "objective.scale=2.8e-6", "algorithm.gamma=2e-5",
    ],
}  # fmt: skip


def speed(overrides: Sequence[str], flag: str) -> float:
    """Rounds per second of the paper's network with these changes."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "cpgt", "run", "paper", "--no-compare", "--quiet", flag]
        changes = [word for override in overrides for word in ("--set", override)]
        subprocess.run([*command, "--out", out, *changes], check=True)
        summary = read_summary(out)
        assert summary and summary.rounds_per_second
        return summary.rounds_per_second


def main() -> None:
    for name, overrides in CASES.items():
        ratios = []
        for _ in range(REPEATS):
            first, journal, second = (
                speed(overrides, flag) for flag in ("--no-journal", "--journal", "--no-journal")
            )
            ratios.append(journal / ((first + second) / 2))
        middle, low, high = statistics.median(ratios), min(ratios), max(ratios)
        print(f"journal, {name}: {middle:.3f} of the rounds/s without ({low:.3f} to {high:.3f})")


if __name__ == "__main__":
    main()
