"""The split of a table into hospitals (bench/hospitals.py)."""

from __future__ import annotations

import numpy as np

from bench.hospitals import scale_rows, split


def make_table(rows: int = 800) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    features = np.column_stack([np.arange(rows), rng.standard_normal((rows, 3))])
    return features, rng.random(rows) < 0.4


def test_every_record_is_at_one_place() -> None:
    """The first feature numbers the records; rows are scaled by a factor of each row."""
    parts, test = split(make_table(), seed=3)
    sizes = [len(labels) for _, labels in parts.values()]
    assert sizes == [204, 132, 96, 72, 60, 36]
    assert len(test[1]) == 200
    first = np.concatenate([rows[:, 0] / rows[:, -1] for rows, _ in (*parts.values(), test)])
    assert len(np.unique(first.round(9))) == 800


def test_hospitals_differ_and_rows_are_bounded() -> None:
    parts, _ = split(make_table(), seed=0)
    shares = [labels.mean() for _, labels in parts.values()]
    assert max(shares) - min(shares) > 0.2
    for rows, _ in parts.values():
        assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12


def test_a_seed_is_a_split() -> None:
    one, same, other = (split(make_table(), seed)[0][2][0] for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_missing_numbers_become_the_mean() -> None:
    features = np.array([[1.0, np.nan, np.inf], [3.0, 5.0, 7.0]])
    rows = scale_rows(features, features)
    assert not rows[:, 1:3].any()
    np.testing.assert_allclose(rows[:, 0] / rows[:, -1], [-1, 1])
