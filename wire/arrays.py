"""Types of numpy arrays, and the tricks for short ones that several rooms share."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Floats32: TypeAlias = NDArray[np.float32]
Integers: TypeAlias = NDArray[np.int64]
Bytes: TypeAlias = NDArray[np.uint8]
Bits: TypeAlias = NDArray[np.uint8]  # 0 or 1 each

SHORT = 64  # coordinates: on rows up to this length, numpy's call overhead dominates


def product(a: Floats, matrix: Floats) -> Floats:
    """a @ matrix. The call overhead of `@` is several times that of `dot`.

    `dot` cannot be used for stacks of matrices.
    """
    return a.dot(matrix) if a.ndim <= 2 else a @ matrix
