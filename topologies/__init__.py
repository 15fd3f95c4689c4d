"""Graphs among agents, doubly stochastic weights on them, and the spectrum that decides the speed."""

from topologies.graphs import GRAPHS, build_graph
from topologies.spectrum import Spectrum, spectrum
from topologies.topology import Graph, Topology, TopologyError
from topologies.weights import WEIGHTS, given_weights

__all__ = [
    "GRAPHS",
    "WEIGHTS",
    "Graph",
    "Spectrum",
    "Topology",
    "TopologyError",
    "build_graph",
    "given_weights",
    "spectrum",
]
