"""How far floating point takes a gradient from its exact value: bounds that hold before anything is computed.

Every sum of n products has a relative error of at most gamma_n = n u / (1 - n u) of the sum of the terms'
sizes, in whatever order it is summed, with or without fused products (Higham, Accuracy and Stability of
Numerical Algorithms, chapter 3). u = 2^-53. So a bound needs the sizes of the data, and of x.

A bound is on the error's 2-norm over sqrt(d): so much on each coordinate, in the root mean square. It covers
also the rounding of a difference of two gradients, of which each has half.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

UNIT = 2.0**-53
FUNCTION = 8  # roundings of an exp or a tanh: numpy's are right to 4 units in the last place
SPARE = 1.01  # bounds are computed in floating point themselves
_MOST = 2.0**-10


def roundings(number: float) -> float:
    """gamma_n: the relative error after so many roundings, one after the other."""
    share = number * UNIT
    return SPARE * share / (1.0 - share) if share < _MOST else math.inf


def over_coordinates(bounds: NDArray[Any]) -> float:
    """The root mean square of bounds on each coordinate."""
    return float(np.linalg.norm(bounds)) / math.sqrt(bounds.size)
