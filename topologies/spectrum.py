"""The numbers of W that the convergence theory asks for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cpgt.topologies.topology import Topology


@dataclass(frozen=True)
class Spectrum:
    """rho_w: spectral radius of W - 11^T/n; laplacian: that of W - I; gap: 1 - rho_w."""

    rho_w: float
    laplacian: float

    @property
    def gap(self) -> float:
        return 1.0 - self.rho_w


def spectrum(topology: Topology) -> Spectrum:
    W = topology.weights
    n = topology.graph.agents
    return Spectrum(
        rho_w=float(np.abs(np.linalg.eigvals(W - np.ones((n, n)) / n)).max()),
        laplacian=float(np.abs(np.linalg.eigvals(W - np.eye(n))).max()),
    )
