"""Eigenvalue bounds of W that the convergence theory uses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cpgt.topologies.topology import Topology


@dataclass(frozen=True)
class Spectrum:
    """Spectral radii: rho_w of W - 11^T/n, laplacian of W - I. The gap is 1 - rho_w."""

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
