"""Private cost functions, found by name and built from an agent's own data."""

from cpgt.agent.objectives.classification import Logistic, Softmax
from cpgt.agent.objectives.loading import load_data
from cpgt.agent.objectives.objective import Data, Objective, rounding_of, smoothness_of
from cpgt.agent.objectives.quadratic import Quadratic
from cpgt.agent.objectives.registry import OBJECTIVES, Idle, build_objective, find_factory, is_code
from cpgt.agent.objectives.regression import Huber, LeastSquares, Ridge
from cpgt.wire.arrays import Floats

__all__ = [
    "OBJECTIVES",
    "Data",
    "Floats",
    "Huber",
    "Idle",
    "LeastSquares",
    "Logistic",
    "Objective",
    "Quadratic",
    "Ridge",
    "Softmax",
    "build_objective",
    "find_factory",
    "is_code",
    "load_data",
    "rounding_of",
    "smoothness_of",
]
