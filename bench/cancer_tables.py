"""The tables of the shipped network `hospitals`, made from scikit-learn's copy of the records.

    python -m bench.cancer_tables cpgt/networks/hospitals

Writes hospital-1.csv to hospital-6.csv, unequal and different from one another, held-out.csv for
the evaluation and public.csv, a sample that counts as public: the schema was drafted from it. A
record is in one file only.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from bench.hospitals import TEST_SHARE, assign, score_records

PUBLIC_SHARE = 0.1
SEED = 0
TARGET = "diagnosis"


def write_tables(folder: Path) -> dict[str, int]:
    """Write the files; returns the number of records of each."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    diagnoses = bunch.target_names[bunch.target]
    rng = np.random.default_rng(SEED)
    order = rng.permutation(len(diagnoses))
    sizes = [round(share * len(order)) for share in (PUBLIC_SHARE, TEST_SHARE)]
    public, held_out, train = np.split(order, np.cumsum(sizes))
    scores = score_records(bunch.data[train], diagnoses[train] == "malignant", rng)
    places = assign(scores, rng)
    files = {"public": public, "held-out": held_out}
    files |= {f"hospital-{k + 1}": train[places == k] for k in range(places.max() + 1)}
    header = [*(name.replace(" ", "_") for name in bunch.feature_names), TARGET]
    for name, rows in files.items():
        lines = ([*map(_short, bunch.data[row]), diagnoses[row]] for row in rows)
        _write(folder / f"{name}.csv", header, lines)
    return {name: len(rows) for name, rows in files.items()}


def _short(number: float) -> str:
    return f"{number:.10g}"


def _write(path: Path, header: list[str], lines: Iterable[list[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(lines)


if __name__ == "__main__":
    for name, records in write_tables(Path(sys.argv[1])).items():
        print(f"{name}.csv: {records} records")
