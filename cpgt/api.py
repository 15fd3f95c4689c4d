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
"""

from cpgt.agent.objectives import Objective
from cpgt.configuration.loading import NetworkError, load_network, parse_network, shipped_networks
from cpgt.configuration.network import Network
from cpgt.extensions import allow as allow_code
from cpgt.runs.in_process import run
from cpgt.runs.result import Result

__all__ = [
    "Network",
    "NetworkError",
    "Objective",
    "Result",
    "allow_code",
    "load_network",
    "parse_network",
    "run",
    "shipped_networks",
]
