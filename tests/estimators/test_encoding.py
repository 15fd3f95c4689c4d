"""Features within public bounds: each record by itself, whatever the others are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from cpgt.estimators.encoding import range_of, shorten_rows
from cpgt.wire.arrays import Floats

tables = arrays.arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 5)),
    elements=st.floats(-1e300, 1e300),
)


@given(tables, st.floats(1e-3, 1e3))
def test_rows_are_within_the_bound_and_keep_their_direction(table: Floats, bound: float) -> None:
    short = shorten_rows(table, bound)
    with np.errstate(over="ignore"):
        lengths = np.hypot.reduce(table, axis=1)  # without squares, which overflow or vanish
    long, untouched = lengths > bound * (1 + 1e-9), lengths < bound * (1 - 1e-9)
    assert (np.linalg.norm(short, axis=1) <= bound * (1 + 1e-15)).all()
    assert (np.linalg.norm(short[long], axis=1) >= bound * (1 - 1e-9)).all()
    assert (short[untouched] == table[untouched]).all()
    assert (np.sign(short) * np.sign(table) >= 0).all()


@given(tables)
def test_a_row_is_encoded_alone_as_in_the_table(table: Floats) -> None:
    whole = shorten_rows(table, 1.0)
    for row, encoded in zip(table, whole, strict=True):
        assert shorten_rows(row[None], 1.0).tobytes() == encoded.tobytes()


def test_bounds_of_each_column() -> None:
    scale = range_of("bounds", ([0.0, -1.0], [10.0, 1.0]), 2).scale
    values = np.array([[0.0, -1.0], [5.0, 0.0], [12.0, -7.0]])
    assert scale(values).tolist() == [[-1.0, -1.0], [0.0, 0.0], [1.0, -1.0]]


@pytest.mark.parametrize("bounds", [(1, 1), (2, 1), (0, np.inf), (np.nan, 1), (0, 5e-324)])
def test_bounds_that_cannot_be(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="low must be smaller than high"):
        range_of("bounds", bounds)
