"""Algorithms of one interface, a short file each: frozen parameters, and a separate state."""

from agent.algorithms.algorithm import Algorithm, X, Y, start_point
from agent.algorithms.cpgt import CPGT
from agent.algorithms.registry import ALGORITHMS, Family, build_algorithm

__all__ = ["ALGORITHMS", "CPGT", "Algorithm", "Family", "X", "Y", "build_algorithm", "start_point"]
