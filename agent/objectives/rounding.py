"""A-priori bounds on the rounding error of a gradient.

A sum of n products has an error of at most gamma_n = n u / (1 - n u) times the sum of the terms'
magnitudes, in any order of summation, with or without fused products (Higham, Accuracy and
Stability of Numerical Algorithms, chapter 3). u = 2^-53. So a bound needs the magnitudes of the
data and of x.

A bound is on the 2-norm of the error over sqrt(d), the root mean square over the coordinates. It
includes the rounding of a difference of two gradients, half of it for each.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cpgt.wire.arrays import Floats

UNIT = 2.0**-53
EXP_ROUNDINGS = 8  # of an exp or a tanh: numpy's are exact to 4 units in the last place
SAFETY = 1.01  # bounds are themselves computed in floating point
LARGEST_N_U = 2.0**-10  # beyond this no useful bound exists


def relative_error(roundings: float) -> float:
    """gamma_n of n = `roundings` successive roundings."""
    n_u = roundings * UNIT
    return SAFETY * n_u / (1.0 - n_u) if n_u < LARGEST_N_U else math.inf


def gradient_error(slopes: Floats, scaled: Floats, l2: float | Floats, magnitude: float) -> float:
    """Bound for the gradient slopes @ scaled + l2 x, from the errors of the slopes."""
    return root_mean_square(slopes @ np.abs(scaled)) + regulariser_error(l2, magnitude)


def regulariser_error(l2: float | Floats, magnitude: float) -> float:
    return relative_error(4) * float(np.max(l2)) * magnitude


def root_mean_square(bounds: NDArray[Any]) -> float:
    return float(np.linalg.norm(bounds)) / math.sqrt(bounds.size)
