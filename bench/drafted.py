"""The accuracy of a study as `cpgt init` drafts it: breast cancer in six hospitals, epsilon 3.

    python -m bench.drafted [--seeds 20] [--epsilon 3]

A quarter of the records is for the test, a tenth is the public sample, six unequal hospitals have
the rest. A seed gives another split and other noise. The rules of the draft were tried out on this
data. Pooled: the same encoded records in one place, by scikit-learn, not private.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import cpgt
from bench.hospitals import SHARES, TEST_SHARE, assign, cancer, score_records
from cpgt.tables.drafting import draft_schema
from cpgt.tables.encode import encode_table
from cpgt.theory.planning.table_study import network_for

PUBLIC_SHARE, DELTA, L2 = 0.1, 1e-5, 1e-3
HOSPITALS = range(1, len(SHARES) + 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--epsilon", type=float, default=3.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = np.array(
            [measure(Path(folder), seed, given.epsilon) for seed in range(given.seeds)]
        )
    for name, values in zip(("cpgt", "pooled"), found.T, strict=True):
        error = values.std() / np.sqrt(len(values))
        print(f"{name:>7}: {values.mean():.3f} +- {error:.3f} over {len(values)} seeds")


def measure(folder: Path, seed: int, epsilon: float) -> tuple[float, float]:
    """Test accuracies: of the drafted study, and of all records in one place."""
    from sklearn.linear_model import LogisticRegression

    records = write_tables(folder, seed)
    schema = draft_schema(folder / "public.csv", "classification", "diagnosis").schema
    network = network_for(schema, records, epsilon=epsilon, delta=DELTA, l2=L2)
    data = {"data": str(folder / "hospital-{id}.csv")}
    network = cpgt.parse_network({**network.model_dump(exclude_none=True), **data})
    x = cpgt.run(network, seed=seed).x[-1].mean(axis=0)
    test = encode_table(schema, folder / "test.csv")
    parts = [encode_table(schema, folder / f"hospital-{number}.csv") for number in HOSPITALS]
    rows = np.concatenate([part.features for part in parts])
    labels = np.concatenate([part.arrays()["labels"] for part in parts])
    model = LogisticRegression(C=1 / (len(rows) * L2), max_iter=10_000).fit(rows[:, :-1], labels)
    pooled = model.predict(test.features[:, :-1])
    return (
        float(np.mean((test.features @ x > 0) == (test.target == 1))),
        float(np.mean(pooled == test.target)),
    )


def write_tables(folder: Path, seed: int) -> list[int]:
    """CSV files of the sample, the test and the hospitals; returns the hospitals' records."""
    features, labels = cancer()
    random = np.random.default_rng(seed)
    order = random.permutation(len(labels))
    ends = np.cumsum([round(TEST_SHARE * len(order)), round(PUBLIC_SHARE * len(order))])
    test, public, train = np.split(order, ends)
    places = assign(score_records(features[train], labels[train], random), random)
    parts = [train[places == place] for place in range(len(SHARES))]
    write_csv(folder / "test.csv", features[test], labels[test])
    write_csv(folder / "public.csv", features[public], labels[public])
    for number, part in zip(HOSPITALS, parts, strict=True):
        write_csv(folder / f"hospital-{number}.csv", features[part], labels[part])
    return [len(part) for part in parts]


def write_csv(path: Path, features: Any, labels: Any) -> None:
    import polars as pl

    columns = {f"feature {number}": column for number, column in enumerate(features.T, start=1)}
    diagnosis = np.where(np.asarray(labels) == 1, "malignant", "benign")
    pl.DataFrame({**columns, "diagnosis": diagnosis}).write_csv(path)


if __name__ == "__main__":
    main()
