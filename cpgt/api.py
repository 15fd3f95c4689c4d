"""The public Python API. These names are stable, and so are those that docs/extending.md imports.
Other modules of `cpgt` may change at any time.

    import cpgt

    result = cpgt.run("paper", seed=1)                    # a shipped network, in this process
    network = cpgt.load_network("mine.toml", ["rounds=500"])
    result = cpgt.run(network, objectives=[f1, f2, ...])  # your own objectives

| name | what it is |
|---|---|
| `run(network, objectives, rounds=, seed=)` | runs a network in this process, returns a `Result` |
| `Result` | states, bytes and epsilon of a run, with `summary()`, `to_pandas()` and `plot()` |
| `load_network(source, overrides)` | reads a network file, or a shipped network by its name |
| `parse_network(tables)` | makes a network from a dictionary with the keys of a network file |
| `shipped_networks()` | the names of the networks that are shipped |
| `Network` | a checked network: what `load_network` and `parse_network` return |
| `NetworkError` | a network file that cannot be used; one line for each mistake |
| `allow_code(kinds)` | lets this process run code that network files name as `module:factory` |
| `Objective` | protocol of an objective: `dimension` and `gradient(x)` |
| `LogisticRegression(epsilon=, delta=, C=)` | a classifier with scikit-learn's conventions; \
`fit(X, y, party=ids)` runs an agent for each party, `report_` says what it promises and cost |
| `Ridge(epsilon=, delta=, alpha=, target_bounds=)` | the same for numbers |
| `HuberRegressor(threshold=)` | the same with a loss that outliers move less |
| `PoissonRegressor(largest_count=)` | the same for counts |

The estimators need scikit-learn: `pip install 'cpgt[estimators]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cpgt.agent.objectives import Objective
from cpgt.configuration.loading import NetworkError, load_network, parse_network, shipped_networks
from cpgt.configuration.network import Network
from cpgt.extensions import allow as allow_code
from cpgt.runs.in_process import run
from cpgt.runs.result import Result

if TYPE_CHECKING:
    from cpgt.estimators import HuberRegressor, LogisticRegression, PoissonRegressor, Ridge

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


def __getattr__(name: str) -> Any:
    """Load the estimators when one is first used: they need scikit-learn, nothing else does."""
    if name not in __all__:
        raise AttributeError(f"module 'cpgt.api' has no attribute {name!r}")
    try:
        from cpgt import estimators
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        command = "pip install 'cpgt[estimators]'"
        raise ImportError(f"cpgt.{name} needs scikit-learn: {command}", name="sklearn") from None
    return getattr(estimators, name)
