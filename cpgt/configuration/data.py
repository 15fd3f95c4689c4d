"""Data and objectives of all agents, for experiments where one person holds everything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cpgt.agent.objectives import Data, Objective
from cpgt.agent.objectives.registry import build_objective, build_record_objective
from cpgt.agent.privacy.budget import Claims
from cpgt.agent.privacy.mechanisms import protects_records
from cpgt.agent.private_data import read_data, usable_data
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
    """Write the synthetic data, one file for each agent, readable by its owner only."""
    paths = {}
    for agent in network.agents:
        path = folder / str(agent) / data_name(network, agent)
        with private_file(path, replace=True) as file:
            np.savez(file, allow_pickle=False, **make_data(network, agent))
        paths[agent] = path
    return paths


def copy_data(network: Network, folder: Path) -> dict[int, Path]:
    """Copy the file of each agent that the network names, readable by its owner only."""
    paths = {}
    for agent in network.agents:
        source = network.data_file(agent)
        assert source
        paths[agent] = folder / str(agent) / data_name(network, agent)
        with private_file(paths[agent], replace=True) as file:
            file.write(source.read_bytes())
    return paths


def data_name(network: Network, agent: int) -> str:
    """The name of an agent's file among those that are written or copied."""
    source = network.data_file(agent)
    return f"data{source.suffix if source else '.npz'}"


def other_tables(network: Network) -> list[Path]:
    """Tables beside those of the agents, such as a public sample or test records."""
    own = {network.data_file(agent) for agent in network.agents}
    folders = {path.parent for path in own if path}
    return sorted(path for folder in folders for path in folder.glob("*.csv") if path not in own)


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
    path, schema = files.get(agent) or network.data_file(agent), network.table_schema
    data = read_data(path, schema)
    return usable_data(path, schema, data) if finite else data
