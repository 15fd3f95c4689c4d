"""Private cost functions, found by name and made from an agent's own data."""

from agent.objectives.classification import Logistic, Softmax
from agent.objectives.loading import load_data
from agent.objectives.objective import Curved, Data, Floats, Objective, rounding_of, smoothness_of
from agent.objectives.quadratic import Quadratic
from agent.objectives.registry import OBJECTIVES, Idle, build_objective, find_factory, is_code
from agent.objectives.regression import Huber, LeastSquares, Ridge

__all__ = [
    "OBJECTIVES",
    "Curved",
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
