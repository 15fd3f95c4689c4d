"""Memory in a star of 24 agents at d = 1,000,000: that of the hub, relative to that of a leaf."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

NETWORK = """
name = "star"
rounds = 12
window = 4
patience = 600
algorithm = { kind = "cpgt", alpha = 0.01, gamma = 0.001 }
graph = { kind = "star", agents = 24 }
compressor = { kind = "quantize", bits = 2 }
noise = { s_x = 1.0, s_y = 1.0, q = 0.99 }
objective = { kind = "idle", dimension = 1_000_000 }
"""


def measure_star() -> None:
    print("A star of 24 agents, d = 1,000,000, 2-bit quantizer and noise: peak memory")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "star.toml"
        file.write_text(NETWORK)
        command = [sys.executable, "-m", "cpgt", "run", str(file), "--no-compare", "--quiet"]
        with subprocess.Popen(
            [*command, "--out", str(Path(folder) / "run")], stdout=subprocess.DEVNULL
        ) as process:
            peaks = _watch(process)
    hub, leaves = peaks.pop("1"), peaks.values()
    print(f"  hub, 23 neighbours: {hub / 1e6:,.0f} MB")
    print(f"  leaves, 1 neighbour: up to {max(leaves) / 1e6:,.0f} MB")
    print(f"  hub / largest leaf: {hub / max(leaves):.2f}")


def _watch(process: subprocess.Popen[bytes]) -> dict[str, int]:
    """The peak resident memory of each agent, from the kernel, by the agent's number."""
    peaks: dict[str, int] = {}
    while process.poll() is None:
        for child in psutil.Process(process.pid).children(recursive=True):
            try:
                words = child.cmdline()[4:]  # after python -P -m cpgt
                if words[:1] == ["agent"]:
                    peaks[words[1]] = max(peaks.get(words[1], 0), _peak(child.pid))
            except (psutil.Error, OSError):
                continue  # the process has just ended
        time.sleep(0.2)
    if process.returncode:
        raise SystemExit("the star failed")
    return peaks


def _peak(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
