"""Algorithms of one interface, a short file each: frozen parameters, and a separate state."""

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
