"""What the objective of every adapter must do. Nothing here knows a library."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import cpgt
from cpgt.agent.objectives import Data, RecordObjective
from cpgt.agent.privacy.clipping import clipped_sum
from cpgt.wire.arrays import Floats

Make = Callable[[Data], RecordObjective]
CLIP = 0.7


def records(number: int, features: int, seed: int = 3) -> dict[str, Floats]:
    draw = np.random.default_rng(seed)
    A = draw.standard_normal((number, features))
    return {"A": A, "labels": draw.integers(0, 3, number).astype(np.float64)}


def gradients(objective: RecordObjective, x: Floats) -> Floats:
    return np.concatenate(list(objective.record_gradients(x)))


def check_rows(make: Make, data: dict[str, Floats], x: Floats) -> None:
    """A record's gradient has the same bits alone, in a batch, at another place, beside others."""
    number, draw = len(data["labels"]), np.random.default_rng(5)
    rows = gradients(make(data), x)
    assert rows.dtype == np.float64
    assert rows.shape == (number, len(x))
    assert np.abs(rows).min(axis=1).max() < np.abs(rows).max(), "gradients are not all alike"
    order = draw.permutation(number)
    moved = gradients(make({name: array[order] for name, array in data.items()}), x)
    assert np.array_equal(moved, rows[order])
    for r in (0, 1, number // 2, number - 1):
        alone = gradients(make({name: array[r : r + 1] for name, array in data.items()}), x)
        assert np.array_equal(alone[0], rows[r])
        others = {name: array.copy() for name, array in data.items()}
        others["A"][np.arange(number) != r] *= 1e3
        others["labels"][np.arange(number) != r] = 0
        assert np.array_equal(gradients(make(others), x)[r], rows[r])
        fewer = {name: array[r:] for name, array in data.items()}
        assert np.array_equal(gradients(make(fewer), x)[0], rows[r])


def check_bad_records(make: Make, data: dict[str, Floats], x: Floats) -> None:
    """A record that cannot be used counts as zero, and changes nothing else."""
    bad = {name: array.copy() for name, array in data.items()}
    bad["A"][1, 0], bad["A"][2, 0], bad["labels"][3] = np.nan, np.inf, np.nan
    rows, kept = gradients(make(bad), x), gradients(make(data), x)
    assert np.isnan(rows[1:4]).all()
    assert np.array_equal(np.delete(rows, [1, 2, 3], 0), np.delete(kept, [1, 2, 3], 0))
    good = {name: np.delete(array, [1, 2, 3], 0) for name, array in data.items()}
    with_bad, without = (clipped_sum(make(each), x, CLIP) for each in (bad, good))
    assert np.array_equal(with_bad, without)


def check_sum(make: Make, data: dict[str, Floats], x: Floats, l2: float) -> None:
    """`gradient` is scale times the sum of the rows, plus that of the regulariser."""
    objective = make(data)
    expected = objective.scale * gradients(objective, x).sum(axis=0) + l2 * x
    found = objective.gradient(x)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert np.array_equal(objective.gradient(x), found), "the same question, the same bits"
    both = objective.gradient(np.stack([x, 2 * x]))
    np.testing.assert_allclose(both[0], found, rtol=1e-6)
    np.testing.assert_allclose(objective.regulariser_gradient(x), l2 * x)


def check_private_run(make: Make, dimension: int) -> None:
    """Three agents with the gradient mechanism, from x = 0 towards a smaller gradient."""
    network = cpgt.parse_network(
        {
            "rounds": 20,
            "algorithm": {"kind": "gradient-tracking", "alpha": 1.0},
            "graph": {"kind": "complete", "agents": 3},
            "privacy": {"mechanism": "gradient", "epsilon": 200.0, "delta": 1e-5, "clip": 1.0},
            "objective": {"kind": "idle", "dimension": dimension},
        }
    )
    tables = [records(60, 5, seed) for seed in (1, 2, 3)]
    for table in tables:
        table["labels"] = table["A"][:, :3].argmax(axis=1).astype(np.float64)
    objectives = [make(table) for table in tables]
    result = cpgt.run(network, objectives, seed=1)
    first, last = (
        float(np.linalg.norm(sum(objective.gradient(x) for objective in objectives)))
        for x in (result.x[0].mean(axis=0), result.x[-1].mean(axis=0))
    )
    assert last < first / 2
