"""Real tables as the data of six unequal, heterogeneous hospitals, with a common test set.

    python -m bench.hospitals OUT [--seed 0] [--sets cancer digits ...]

makes OUT/SET/hospital-{1..6}.npz and OUT/SET/test.npz with the arrays `A` and `labels` (0 and 1).

`bench.accuracy` calls it in an environment with scikit-learn, pandas and SurvSet, which the project
itself does not need. Columns are scaled by the mean and deviation of the POOLED training records
and missing numbers become the pooled mean. Real parties could not do that without spending
privacy: the file SCALING beside the data says so.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SHARES = (0.34, 0.22, 0.16, 0.12, 0.10, 0.06)  # of the training records
CENTRES = (0.2, 0.8, 0.4, 0.9, 0.1, 0.6)  # the patients that a hospital attracts, by their score
ATTRACTION, BLUR = 3.0, 0.35  # how strongly; deviation of the noise on the score
TEST_SHARE = 0.25
WIDEST = 3.0  # scaled columns are clipped to +- this
SCALING = "Columns scaled by pooled mean and deviation: the privacy account does not count that.\n"

# the feature table of numbers (columns may hold NaN), and labels 0 or 1
Table = tuple[Any, Any]


def cancer() -> Table:
    """Breast cancer (Wisconsin): malignant or not. In scikit-learn."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    return bunch.data, 1 - bunch.target


def digits() -> Table:
    """Images of 8 x 8 pixels: the digit is 5 or more. In scikit-learn."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return bunch.data, bunch.target >= 5


def diabetes() -> Table:
    """Progression of diabetes above its median. In scikit-learn."""
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes()
    return bunch.data, bunch.target > np.median(bunch.target)


def wine() -> Table:
    """Wines of the second of three growers. In scikit-learn."""
    from sklearn.datasets import load_wine

    bunch = load_wine()
    return bunch.data, bunch.target == 1


def support() -> Table:
    """SUPPORT2, seriously ill patients: died within 180 days. In SurvSet."""
    numbers = "age num_co scoma meanbp wblc hrt resp temp pafi alb bili crea sod"
    columns = [f"num_{name}" for name in numbers.split()]
    columns += ["fac_sex", "fac_diabetes", "fac_dementia", "fac_ca"]
    return _event_within("support2", 180, columns)


def catheter() -> Table:
    """RHC, right heart catheterisation: died within 180 days. In SurvSet."""
    return _event_within("rhc", 180)


def chains() -> Table:
    """Serum free light chains of residents over 50: died within ten years. In SurvSet."""
    columns = "num_age num_kappa num_lambda num_creatinine num_sample_yr fac_sex fac_mgus"
    return _event_within("flchain", 3652, columns.split())  # the cause of death is left out


def rotterdam() -> Table:
    """Breast cancer in Rotterdam: recurred or died within five years. In SurvSet."""
    return _event_within("rott2", 60)  # its time is in months


def smart() -> Table:
    """SMART, vascular disease: an event within five years. In SurvSet."""
    return _event_within("smarto", 1826)


def _event_within(name: str, time: int, columns: list[str] | None = None) -> Table:
    """Those who were lost before that time are left out, because nobody knows their label."""
    import pandas
    from SurvSet.data import SurvLoader

    table = SurvLoader().load_dataset(ds_name=name)["df"]
    table = table[(table.event == 1) | (table.time >= time)].sort_values("pid")
    labels = (table.event == 1) & (table.time <= time)
    features = table[columns] if columns else table.drop(columns=["pid", "event", "time"])
    coded = pandas.get_dummies(features, drop_first=True, dtype=float)
    return coded.to_numpy(float), labels.to_numpy()


SETS: dict[str, Callable[[], Table]] = {
    make.__name__: make
    for make in (cancer, digits, support, diabetes, wine, catheter, chains, rotterdam, smart)
}
NAMED = ("cancer", "digits", "support")  # those that the project promises figures for


def split(table: Table, seed: int) -> tuple[dict[int, Table], Table]:
    """The parts of the hospitals, from 1, and the test set; features scaled."""
    rng = np.random.default_rng(seed)
    features, labels = np.asarray(table[0], float), np.asarray(table[1], float)
    order = rng.permutation(len(labels))
    test, train = np.split(order, [round(TEST_SHARE * len(labels))])
    rows = scale_rows(features, features[train])
    places = assign(score_records(features[train], labels[train], rng), rng)
    parts = {k + 1: train[places == k] for k in range(len(SHARES))}
    return {k: (rows[own], labels[own]) for k, own in parts.items()}, (rows[test], labels[test])


def scale_rows(features: Any, reference: Any) -> Any:
    """Columns scaled as those of `reference`, an intercept column, rows clipped to norm 1."""
    features, reference = (np.where(np.isfinite(a), a, np.nan) for a in (features, reference))
    mean, deviation = np.nanmean(reference, axis=0), np.nanstd(reference, axis=0)
    scaled = (features - mean) / np.where(deviation > 0, deviation, 1.0)
    scaled = np.nan_to_num(scaled).clip(-WIDEST, WIDEST)
    rows = np.column_stack([scaled, np.ones(len(scaled))])
    return rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))


def score_records(features: Any, labels: Any, rng: np.random.Generator) -> Any:
    """Half the label, half the rank in the first feature, blurred."""
    rank = np.argsort(np.argsort(np.nan_to_num(features[:, 0]))) / len(labels)
    return 0.5 * labels + 0.5 * rank + BLUR * rng.standard_normal(len(labels))


def assign(scores: Any, rng: np.random.Generator) -> Any:
    """Each record's hospital, from 0. The smallest chooses first, the largest gets the rest."""
    places = np.zeros(len(scores), int)
    free = np.arange(len(scores))
    for k in range(len(SHARES) - 1, 0, -1):
        appeal = np.exp(-ATTRACTION * (scores[free] - CENTRES[k]) ** 2)
        size = max(1, round(SHARES[k] * len(scores)))
        chosen = rng.choice(free, size, replace=False, p=appeal / appeal.sum())
        places[chosen] = k
        free = np.setdiff1d(free, chosen)
    return places


def write(name: str, folder: Path, seed: int) -> list[int]:
    """Write the files of one set; returns the records of each hospital."""
    parts, test = split(SETS[name](), seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SCALING").write_text(SCALING)
    for file, (rows, labels) in {
        **{f"hospital-{k}": p for k, p in parts.items()},
        "test": test,
    }.items():
        np.savez(folder / f"{file}.npz", A=rows, labels=labels)
    return [len(labels) for _, labels in parts.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(NAMED))
    given = parser.parse_args()
    for name in given.sets:
        records = write(name, given.out / name, given.seed)
        print(f"{name}: {sum(records)} records in {records}")


if __name__ == "__main__":
    main()
