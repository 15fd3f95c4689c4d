"""Distributed algorithms behind one interface, a module each: frozen parameters, separate state."""

from cpgt.agent.algorithms.algorithm import Algorithm, Limit, X, Y, start_point
from cpgt.agent.algorithms.cpgt import CPGT
from cpgt.agent.algorithms.registry import ALGORITHMS, AlgorithmKind, build_algorithm

__all__ = [
    "ALGORITHMS",
    "CPGT",
    "Algorithm",
    "AlgorithmKind",
    "Limit",
    "X",
    "Y",
    "build_algorithm",
    "start_point",
]
