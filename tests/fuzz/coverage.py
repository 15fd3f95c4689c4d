"""Coverage-guided fuzzing of all decoders, with Atheris: pip install 'cpgt[fuzz]'

    python -m tests.fuzz.coverage RUNS [TARGET ...]

Each target gets its share of the runs, in a separate process. Inputs that reach new code are kept
in .fuzz/TARGET, so that the next run goes on from there. An input that is a bug is written to
tests/fuzz/crashes/TARGET-..., where a test finds it. With the variable SEED, a run is repeatable.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CORPUS = Path(".fuzz")
CRASHES = Path(__file__).parent / "crashes"
# Shares of the runs: decoders of sockets get more, and files on a disk are slower.
SHARES = {
    "payload": 30, "frame": 10, "control": 20, "header": 10, "plan": 8, "endpoint": 6,
    "run_rules": 4, "agent_rules": 4, "machine_frame": 4,
}  # fmt: skip
SLOWEST_SECONDS = 10


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--target"]:
        fuzz_here(arguments[1], arguments[2:])
    from tests.fuzz.targets import TARGETS

    runs, names = int(arguments[0]), arguments[1:] or list(TARGETS)
    shares = [SHARES.get(name, 2) for name in names]
    for name in names:
        write_seeds(name)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(fuzz, names, [runs * share // sum(shares) for share in shares])
        found = list(results)
    print(f"{sum(done for _, done in found):,} executions")  # noqa: T201
    return max(code for code, _ in found)


def write_seeds(name: str) -> None:
    from tests.fuzz.targets import seeds

    (CORPUS / name).mkdir(parents=True, exist_ok=True)
    for i, seed in enumerate(seeds(name)):
        (CORPUS / name / f"seed-{i}").write_bytes(seed)


def fuzz(name: str, runs: int) -> tuple[int, int]:
    """One target, in another process. Its exit code (1: a crash) and executions."""
    CRASHES.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tests.fuzz.coverage", "--target", name, f"-runs={runs}"]
    command += [f"-artifact_prefix={CRASHES}/{name}-", f"-timeout={SLOWEST_SECONDS}"]
    command += [f"-seed={os.environ.get('SEED', 0)}"]  # 0: another one each time
    command += ["-rss_limit_mb=2048", "-print_final_stats=1", str(CORPUS / name)]
    began = time.monotonic()
    process = subprocess.run(command, capture_output=True, text=True, errors="replace")
    found = re.search(r"number_of_executed_units: (\d+)", process.stderr)
    done, crashed = int(found[1]) if found else 0, process.returncode != 0
    if crashed:
        lines = [line for line in process.stderr.splitlines() if not line.startswith("INFO:")]
        sys.stderr.write("\n".join(lines)[-4000:] + "\n")
    state = "a crash is in tests/fuzz/crashes" if crashed else "no crash"
    seconds = time.monotonic() - began
    print(f"{name:<14}{done:>11,} executions {seconds:>7.0f} s  {state}", flush=True)  # noqa: T201
    return int(crashed), done


def fuzz_here(name: str, options: list[str]) -> None:
    """In this process, which does not return."""
    import atheris

    # Not before: what is imported in this block reports which branches it takes.
    with atheris.instrument_imports(include=["cpgt", "zipfile", "tomllib"]):
        from tests.fuzz.targets import TARGETS
    atheris.Setup([sys.argv[0], *options], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
