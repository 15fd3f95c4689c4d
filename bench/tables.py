"""The time and memory to load a table of 1,000,000 rows and 50 columns from a CSV file.

    python -m bench.tables [--rows 1000000] [--columns 50] [--repeats 3]

Compares `encode_table`, from the file to the arrays of an objective, with what the table library
alone needs to read the same file to numbers. Each load is a process; the median of several counts,
in turns. The peak of resident memory is compared with the size of the arrays.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

LIMIT = 3.0  # times what the library needs
MEGABYTE = 1e6

Load = Callable[[Path], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50, help="with the target")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--load", choices=LOADS, help="one load in this process")
    parser.add_argument("--file", type=Path)
    given = parser.parse_args()
    if given.load:
        print(json.dumps(measure(given.load, given.file, given.columns)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write_table(path, given.rows, given.columns)
        size = path.stat().st_size
        found: dict[str, list[tuple[float, float]]] = {load: [] for load in LOADS}
        for _ in range(given.repeats):
            for load in LOADS:
                found[load].append(load_in_process(load, path, given.columns))
    print_comparison(found, given.rows, given.columns, size)


def write_table(path: Path, rows: int, columns: int) -> None:
    """Numbers with four decimals; one in a hundred is missing."""
    import polars as pl

    random = np.random.default_rng(1)
    frame = {}
    for number in range(columns):
        values = random.normal(50, 10, rows).round(4)
        values[random.random(rows) < 0.01] = np.nan
        frame[f"c{number}"] = pl.Series(values, nan_to_null=True)
    pl.DataFrame(frame).write_csv(path)


def load_in_process(load: str, path: Path, columns: int) -> tuple[float, float]:
    command = [sys.executable, "-m", "bench.tables", "--load", load, "--file", str(path)]
    command += ["--columns", str(columns)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, peak = json.loads(done.stdout)
    return seconds, peak


def measure(load: str, path: Path, columns: int) -> tuple[float, float]:
    """Seconds, without imports, and the peak of resident memory in bytes."""
    prepared = LOADS[load](columns)
    begin = time.perf_counter()
    prepared(path)
    seconds = time.perf_counter() - begin
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def with_schema(columns: int) -> Load:
    from cpgt.tables.encode import encode_table
    from cpgt.tables.schema import parse_schema

    schema = parse_schema(
        {
            "version": 1,
            "feature_bound": 3.0,
            "target": {"column": "c0", "bounds": [0, 100]},
            "columns": [
                {"name": f"c{number}", "kind": "number", "bounds": [20, 80], "missing": 50}
                for number in range(1, columns)
            ],
        }
    )
    return lambda path: encode_table(schema, path).arrays()


def with_library(_columns: int) -> Load:
    import polars as pl

    return pl.read_csv


LOADS = {"library": with_library, "encode_table": with_schema}


def print_comparison(
    found: dict[str, list[tuple[float, float]]], rows: int, columns: int, size: int
) -> None:
    arrays = rows * (columns + 1) * 8
    print(f"{rows:,} rows, {columns} columns: {size / MEGABYTE:,.0f} MB of CSV, "
          f"{arrays / MEGABYTE:,.0f} MB of arrays")  # fmt: skip
    seconds = {load: statistics.median(s for s, _ in runs) for load, runs in found.items()}
    for load, runs in found.items():
        peak = max(memory for _, memory in runs)
        print(f"{load:>12}: {seconds[load]:6.2f} s, peak {peak / MEGABYTE:,.0f} MB")
    ratio = seconds["encode_table"] / seconds["library"]
    verdict = "within" if ratio <= LIMIT else "NOT within"
    print(f"encode_table takes {ratio:.2f} times as long as the library: {verdict} {LIMIT:g} times")


if __name__ == "__main__":
    main()
