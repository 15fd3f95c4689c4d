"""CPGT: compressed, differentially private gradient tracking among processes that share no data.

import cpgt
result = cpgt.run("paper", seed=1)          # in this process, with all states
cpgt.run(network, objectives=[f1, f2, ...])  # your own objectives
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cpgt.configuration.loading import NetworkError, load_network, parse_network
    from cpgt.configuration.network import Network
    from cpgt.runs.in_process import Result, run

__all__ = ["Network", "NetworkError", "Result", "load_network", "parse_network", "run"]


def __getattr__(name: str) -> Any:
    """Loaded when asked for: an agent process must not carry what only a notebook needs."""
    from importlib import import_module

    if name in ("run", "Result"):
        return getattr(import_module("cpgt.runs.in_process"), name)
    if name in __all__:
        module = "network" if name == "Network" else "loading"
        return getattr(import_module(f"cpgt.configuration.{module}"), name)
    raise AttributeError(f"module 'cpgt' has no attribute {name!r}")
