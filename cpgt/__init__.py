"""CPGT: compressed, differentially private gradient tracking among processes that share no data.

`cpgt.run`, `cpgt.load_network` and so on are the public API; `cpgt.api` documents it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from cpgt.api import (
        HuberRegressor,
        LogisticRegression,
        Network,
        NetworkError,
        Objective,
        PoissonRegressor,
        Result,
        Ridge,
        allow_code,
        load_network,
        parse_network,
        run,
        shipped_networks,
    )

__all__ = [
    "HuberRegressor",
    "LogisticRegression",
    "Network",
    "NetworkError",
    "Objective",
    "PoissonRegressor",
    "Result",
    "Ridge",
    "allow_code",
    "load_network",
    "parse_network",
    "run",
    "shipped_networks",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    """Load the API when it is first used: agent and coordinator processes do without it."""
    if name == "__version__":
        from importlib.metadata import version

        return version("cpgt")
    if name in __all__:
        from cpgt import api

        return getattr(api, name)
    raise AttributeError(f"module 'cpgt' has no attribute {name!r}")
