"""Data and objectives of all agents, for experiments where one person holds everything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cpgt.agent.objectives import Data, Objective
from cpgt.agent.objectives.loading import load_data
from cpgt.agent.objectives.registry import build_objective, build_record_objective
from cpgt.agent.privacy.budget import Claims
from cpgt.agent.privacy.mechanisms import protects_records
from cpgt.configuration.network import Network
from cpgt.configuration.synthetic import GENERATORS, draw_for
from cpgt.process.files import private_file
from cpgt.wire.arrays import Floats


def make_data(network: Network, agent: int) -> dict[str, Floats]:
    """The synthetic data of one agent. The network and the agent determine it."""
    synthetic = network.synthetic
    if synthetic is None:
        raise ValueError(f"{network.name} has no synthetic section: agents bring their own data")
    draw = draw_for(synthetic.seed, agent, len(network.agents))
    return GENERATORS[synthetic.kind](draw, synthetic.dimension, **synthetic.options)


def write_data(network: Network, folder: Path) -> dict[int, Path]:
    """Write one file for each agent, readable by its owner only."""
    paths = {}
    for agent in network.agents:
        path = folder / str(agent) / "data.npz"
        with private_file(path, replace=True) as file:
            np.savez(file, allow_pickle=False, **make_data(network, agent))
        paths[agent] = path
    return paths


def build_objectives(network: Network, files: dict[int, Path]) -> list[Objective]:
    """Every agent's objective: from its file, from synthetic data, or from no data at all."""
    kind, options = network.objective.kind, network.objective.options
    by_records = protects_records(Claims.of(network.claims))
    found: list[Objective] = []
    for agent in network.agents:
        data = find_data(network, agent, files, finite=not by_records)
        if by_records:
            found.append(build_record_objective(kind, options, data).objective)
        else:
            found.append(build_objective(kind, options, data))
    return found


def find_data(
    network: Network, agent: int, files: Mapping[int, Path], *, finite: bool = True
) -> Data:
    """The agent's data: from `files`, or synthetic, or from the file that the network names."""
    if network.synthetic and agent not in files:
        return make_data(network, agent)
    return load_data(files.get(agent) or network.data_file(agent), finite=finite)
