"""Test accuracies of fits by other libraries: of each party alone, and of all records together.

    python bench/accuracy_baselines.py FOLDER EPSILON ...

prints JSON. `bench.accuracy` calls it in the environment that has scikit-learn and diffprivlib.
diffprivlib promises pure epsilon for a record that is added or removed. Its regularisation is the
one that is best on the test set, which is in its favour.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

L2 = 1e-3
REGULARISATIONS = (0.01, 0.1, 1.0)  # C of diffprivlib


def main() -> None:
    folder, *epsilons = sys.argv[1:]
    warnings.filterwarnings("ignore")  # diffprivlib warns that fits did not converge
    paths = sorted(Path(folder).glob("hospital-*.npz"))
    parts = [_load(path) for path in paths]
    test = _load(Path(folder) / "test.npz")
    pooled = tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    found: dict[str, Any] = {"not private": plain(pooled, test)}
    for epsilon in map(float, epsilons):
        found[f"{epsilon:g}"] = {
            "alone": best(parts, test, epsilon),
            "pooled": best([pooled], test, epsilon),
        }
    json.dump(found, sys.stdout)


def _load(path: Path) -> Any:
    with np.load(path) as arrays:
        return arrays["A"], arrays["labels"]


def plain(train: Any, test: Any) -> float:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1 / (L2 * len(train[1])), fit_intercept=False, max_iter=1000)
    return float(model.fit(*train).score(*test))


def best(parts: list[Any], test: Any, epsilon: float) -> float:
    """The mean over the parts, for the best regularisation."""
    means = [np.mean([private(part, test, epsilon, C) for part in parts]) for C in REGULARISATIONS]
    return float(max(means))


def private(train: Any, test: Any, epsilon: float, C: float) -> float:
    from diffprivlib.models import LogisticRegression

    if len(np.unique(train[1])) < 2:
        return float(np.mean(test[1] == train[1][0]))
    model = LogisticRegression(epsilon=epsilon, data_norm=1.0, C=C, fit_intercept=False)
    return float(model.fit(*train).score(*test))


if __name__ == "__main__":
    main()
