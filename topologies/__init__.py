"""Graphs of agents, doubly stochastic weights on them, and the spectrum that sets the speed."""

from cpgt.topologies.graphs import GRAPHS, build_graph, make_graph
from cpgt.topologies.topology import Graph, Spectrum, Topology, TopologyError, spectrum
from cpgt.topologies.weights import WEIGHTS, given_weights, make_weights

__all__ = [
    "GRAPHS",
    "WEIGHTS",
    "Graph",
    "Spectrum",
    "Topology",
    "TopologyError",
    "build_graph",
    "given_weights",
    "make_graph",
    "make_weights",
    "spectrum",
]
