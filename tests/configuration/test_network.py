"""The network file: what it accepts, and one line with the key's path for each mistake."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgpack
import numpy as np
import pytest
import tomli_w
from pydantic import ValidationError

from cpgt import NetworkError, load_network, parse_network
from cpgt.agent.algorithms.registry import ALGORITHMS
from cpgt.bounds import Bounds
from cpgt.configuration.kinds import Kinds, KindSection
from cpgt.configuration.loading import apply_overrides, load_public_network, shipped_networks
from cpgt.topologies import GRAPHS, Graph, TopologyError, build_graph
from cpgt.topologies.graphs import Agents
from cpgt.wire.keys import new_pair

SMALL: dict[str, Any] = {
    "rounds": 10,
    "algorithm": {"alpha": 0.1},
    "graph": {"kind": "ring", "agents": 4},
    "objective": {"kind": "least-squares"},
}


def mistakes(*overrides: str) -> list[str]:
    with pytest.raises(NetworkError) as caught:
        load_network("paper", overrides)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("rounds=0", "paper: rounds: .*greater than or equal to 1.*not 0"),
        ("rounds=ten", "paper: rounds: .*valid integer.*not 'ten'"),
        ("window=0", "paper: window: "),
        ("patience=-1", "paper: patience: .*greater than 0"),
        ("start=somewhere", "paper: start: .*'zeros' or 'uniform'"),
        ("colour=blue", "paper: colour: no such key"),
        (
            "algorithm.beta=1",
            "paper: algorithm.beta: 'cpgt' has no such option; it takes alpha, gamma",
        ),
        ("algorithm.alpha=0", "paper: algorithm.alpha: .*greater than 0.*not 0"),
        ("algorithm.alpha=-0.1", "paper: algorithm.alpha: .*greater than 0"),
        ("algorithm.alpha=nan", "paper: algorithm.alpha: "),
        ("algorithm.gamma=1.5", "paper: algorithm.gamma: .*less than or equal to 1"),
        (
            "algorithm.kind=magic",
            "paper: algorithm.kind: 'magic' is not known; there are cpgt, diadsp",
        ),
        ("algorithm.kind=diadsp", "paper: algorithm.kind = 'diadsp' sends uncompressed"),
        ("algorithm.kind=compressed-gradient-tracking", "paper: algorithm.kind = .* has no noise"),
        ("compressor.bits=0", "paper: compressor.bits: .*greater than or equal to 1, not 0"),
        ("compressor.bits=17", "paper: compressor.bits: .*less than or equal to 16, not 17"),
        ("compressor.bits=two", "paper: compressor.bits: .*not 'two'"),
        ("compressor.k=2", "paper: compressor.k: 'quantize' has no such option; it takes bits"),
        (
            "compressor.kind=zip",
            "paper: compressor.kind: 'zip' is not known; there are identity, top-k",
        ),
        ("compressor.kind=top-k", "paper: compressor.k: is missing; 'top-k' needs it"),
        ("noise.q=0", "paper: noise.q: .*greater than 0"),
        ("noise.q=1.01", "paper: noise.q: .*less than or equal to 1"),
        ("noise.s_x=-1", "paper: noise.s_x: .*greater than or equal to 0"),
        ("noise.agents.7.q=0.5", "paper: noise.agents.7: the network has agents 1..6"),
        ("noise.agents.2.q=2", "paper: noise.agents.2.q: .*less than or equal to 1"),
        ("graph.kind=cube", "paper: graph.kind: 'cube' is not known; there are paper, ring"),
        ("graph.kind=ring", "paper: graph.agents: is missing; 'ring' needs it"),
        ("graph.agents=7", "paper: graph: the paper's graph has 6 agents, not 7"),
        ("graph.colour=1", "paper: graph.colour: 'paper' has no such option"),
        (
            "weights.kind=heavy",
            "paper: weights.kind: 'heavy' is not known; there are metropolis",
        ),
        (
            "weights.matrix=[[1.0]]",
            r"paper: weights: W has shape \(1, 1\), but 6 agents need \(6, 6\)",
        ),
        ("weights.matrix=[[1.0], [1.0, 2.0]]", "paper: weights: W must be a square list"),
        (
            "objective.kind=magic",
            "paper: objective.kind: 'magic' is not known; there are least-squares",
        ),
        ("objective.scale=-1", "paper: objective.scale: .*greater than 0, not -1"),
        ("objective.scale=big", "paper: objective.scale: .*not 'big'"),
        (
            "objective.rows=3",
            "paper: objective.rows: 'least-squares' has no such option; it takes scale",
        ),
        (
            "objective={kind='mine:make', since=2020-01-01}",
            "paper: objective: an option that cannot be sent",
        ),
        ("synthetic.dimension=0", "paper: synthetic.dimension: "),
        (
            "data=some/agent-{id}.npz",
            "paper: data: give either a file pattern or a synthetic section",
        ),
        ("stop.change=0", "paper: stop.change: .*greater than 0"),
    ],
)
def test_each_mistake_is_one_line_with_its_path(override: str, line: str) -> None:
    lines = mistakes(override)
    assert len(lines) == 1
    assert re.match(line, lines[0]), lines[0]


def test_several_mistakes_are_several_lines() -> None:
    lines = mistakes("rounds=0", "noise.q=3", "algorithm.alpha=-1")
    assert sorted(line.split(": ")[1] for line in lines) == ["algorithm.alpha", "noise.q", "rounds"]


def test_k_beyond_the_dimension_is_found_where_the_dimension_is_known() -> None:
    assert mistakes("compressor.kind=top-k", "compressor.k=11") == [
        "paper: compressor.k = 11 is more than the dimension 10; choose at most 10, "
        "or compressor.kind = 'identity'"
    ]


def test_a_disconnected_graph() -> None:
    lines = mistakes("graph.kind=edges", "graph.edges=[[1, 2], [3, 4]]")
    assert lines == [
        "paper: graph: the graph is not connected: no path from agent 1 to 3, 4; add edges"
    ]


def test_a_bad_matrix_names_the_entry() -> None:
    matrix = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.5]]
    tables = {**SMALL, "graph": {"kind": "path", "agents": 3}, "weights": {"matrix": matrix}}
    with pytest.raises(NetworkError, match=r"weights: W\[2, 2\] = 0 must be positive"):
        parse_network(tables)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(
        NetworkError, match=r"neither a file nor a network shipped here \(.*paper, paper-c1"
    ):
        load_network("no-such-network")
    with pytest.raises(NetworkError, match=r"gone\.toml: cannot be read: No such file"):
        load_network(str(tmp_path / "gone.toml"))
    broken = tmp_path / "broken.toml"
    broken.write_text("rounds = = 3")
    with pytest.raises(NetworkError, match=r"broken\.toml: not TOML: .*line 1"):
        load_network(str(broken))
    broken.write_bytes(b"\xff\xfe")
    with pytest.raises(NetworkError, match=r"broken\.toml: cannot be read"):
        load_network(str(broken))


@pytest.mark.parametrize("override", ["rounds", "=3", "algorithm.=3", "rounds.deep=3"])
def test_overrides_that_make_no_sense(override: str) -> None:
    with pytest.raises(NetworkError, match=re.escape(f"--set {override}: ")):
        load_network("paper", [override])


def test_a_new_kind_drops_the_options_of_the_old_one() -> None:
    network = load_network("paper", ["compressor.k=3", "compressor.kind=top-k"])
    assert network.compressor.model_dump() == {"kind": "top-k", "k": 3}
    tables: dict[str, Any] = {"algorithm": {"kind": "cpgt", "alpha": 0.5}}
    apply_overrides(tables, ["algorithm.kind=diadsp"])
    assert tables == {"algorithm": {"kind": "diadsp", "alpha": 0.5}}


@pytest.mark.parametrize(
    ("name", "override", "section", "kept"),
    [
        ("huber", "graph.kind=star", "graph", {"agents": 6}),
        ("huber", "compressor.kind=quantize-unbiased", "compressor", {"bits": 4}),
        ("huber", "objective.kind=ridge", "objective", {"l2": 0.01, "scale": 0.002}),
        (
            "huber",
            "synthetic.kind=gaussian",
            "synthetic",
            {"dimension": 10, "seed": 1, "rows": 500},
        ),
        ("huber", "algorithm.kind=cpgt", "algorithm", {"alpha": 0.06, "gamma": 0.5}),
        ("huber", "graph.kind=paper", "graph", {"agents": 6}),
        ("huber", "compressor.kind=identity", "compressor", {}),
    ],
)
def test_a_new_kind_keeps_the_options_that_it_has(
    name: str, override: str, section: str, kept: dict[str, Any]
) -> None:
    tables = load_network(name, [override]).model_dump()
    assert tables[section] == {"kind": override.partition("=")[2], **kept}


def test_an_option_of_the_command_line_is_never_dropped() -> None:
    lines = mistakes("compressor.bits=3", "compressor.k=2", "compressor.kind=top-k")
    assert lines == ["paper: compressor.bits: 'top-k' has no such option; it takes k, values"]


@pytest.mark.parametrize("override", ["graph=3", "graph={}", "graph.kind=3", "synthetic.kind=[1]"])
def test_a_section_without_a_kind(override: str) -> None:
    section = override.partition("=")[0].partition(".")[0]
    assert mistakes(override)[0].startswith(f"paper: {section}: must be a table with a kind, not ")


def comb(agents: Agents, teeth: Annotated[int, Bounds(ge=2), "Length of a tooth."] = 2) -> Graph:
    """Paths side by side, joined at their ends."""
    steps = [(i, i + (teeth if i % teeth == 1 else 1)) for i in range(1, agents)]
    return Graph(agents, tuple(steps))


def test_an_option_that_is_new_needs_its_hint_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(GRAPHS, "comb", comb)
    kinds = Kinds(KindSection, GRAPHS)
    assert kinds.section("comb", agents=4, teeth=3).options == {"agents": 4, "teeth": 3}
    with pytest.raises(ValidationError, match="greater than or equal to 2"):
        kinds.section("comb", agents=4, teeth=1)
    with pytest.raises(TopologyError, match="graph 'comb': teeth: Input should be greater"):
        build_graph("comb", agents=4, teeth=1)


def test_a_data_pattern_is_relative_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    text = tomli_w.dumps({**SMALL, "data": "d/{id}.npz"})
    file.write_text(text)
    assert load_network(str(file)).data_file(2) == tmp_path / "d" / "2.npz"
    with pytest.raises(NetworkError, match=r"must contain \{id\}"):
        parse_network({**SMALL, "data": "everyone.npz"})


def test_a_plan_says_nothing_private(tmp_path: Path) -> None:
    network = parse_network({**SMALL, "data": str(tmp_path / "{id}.npz")})
    parameters = network.parameters(1)
    assert set(parameters) == {
        "network", "algorithm", "compressor", "noise", "privacy", "objective", "start",
    }  # fmt: skip
    assert str(tmp_path) not in repr(parameters)


def test_a_plan_names_the_network_as_every_agent_reads_it() -> None:
    graph = {"kind": "edges", "edges": [[1, 2], [2, 3]]}
    parameters = parse_network({**SMALL, "graph": graph}).parameters(1)
    assert parameters["network"] == {"name": "network", "agents": 3, "graph": graph}
    assert msgpack.unpackb(msgpack.packb(parameters)) == parameters, "as the agreement compares it"


def test_noise_of_each_agent() -> None:
    network = load_network("paper", ["noise.agents.2.q=0.5", "noise.agents.2.s_y=7"])
    assert network.noise.of(1) == {"s_x": 100.0, "s_y": 100.0, "q": 0.99}
    assert network.noise.of(2) == {"s_x": 100.0, "s_y": 7.0, "q": 0.5}


def test_the_papers_four_rows() -> None:
    rows = {}
    for name in ("paper-c1", "paper-c2-1", "paper-c2-2", "paper-diadsp"):
        network = load_network(name)
        rows[network.name] = (
            network.compressor.model_dump(),
            network.algorithm.gamma,
            network.algorithm.alpha,
        )
        assert network.noise.of(1) == {"s_x": 100.0, "s_y": 100.0, "q": 0.99}
        assert network.objective.options["scale"] == 1 / 36
        assert len(network.topology.graph.edges) == 8
        assert network.start == "uniform"
    assert rows == {
        "CPGT-C1": ({"kind": "top-k", "k": 2}, 0.05, 0.1),
        "CPGT-C2-1": ({"kind": "quantize", "bits": 2}, 0.2, 0.1),
        "CPGT-C2-2": ({"kind": "quantize", "bits": 2}, 0.05, 0.15),
        "DiaDSP": ({"kind": "identity"}, 1.0, 0.15),
    }


@pytest.mark.parametrize("name", shipped_networks())
def test_the_resolved_file_is_the_network(name: str, tmp_path: Path) -> None:
    network = load_network(name)
    if network.mechanism == "state":
        network = load_network(name, ["noise.agents.4.s_x=3"])
    file = tmp_path / "resolved.toml"
    file.write_text(network.to_toml())
    again = load_network(str(file), reads_data=False)
    assert again == network
    assert np.array_equal(again.topology.weights, network.topology.weights)


def keys_of(agents: int) -> dict[str, Any]:
    return {
        "coordinator": new_pair().public,
        "agents": {number: new_pair().public for number in range(1, agents + 1)},
    }


def test_a_network_can_be_pickled_for_another_process() -> None:
    network = load_network(
        "paper", ["noise.agents.2.s_x=0.5", "compressor.kind=top-k", "compressor.k=2"]
    )
    for same in (network, load_public_network("paper")):
        assert pickle.loads(pickle.dumps(same)) == same


def test_public_keys_are_written_and_read() -> None:
    network = parse_network({**SMALL, "keys": keys_of(4)})
    assert parse_network(tomllib.loads(network.to_toml())).keys == network.keys
    assert "keys" not in network.parameters(1)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {"agents": {1: "x"}},
            r"network: keys\.agents\.1: this is no public key; 'cpgt keys show FILE'",
        ),
        ({"coordinator": "#" * 40}, r"network: keys\.coordinator: this is no public key"),
        (keys_of(3), r"network: keys\.agents: must have the keys of agents 1\.\.4"),
        (keys_of(5), r"network: keys\.agents: must have the keys of agents 1\.\.4"),
    ],
)
def test_mistakes_with_keys(change: dict[str, Any], line: str) -> None:
    with pytest.raises(NetworkError, match=line):
        parse_network({**SMALL, "keys": {**keys_of(4), **change}})


def test_every_party_has_a_key_of_its_own() -> None:
    keys = keys_of(4)
    keys["agents"][2] = keys["coordinator"]
    with pytest.raises(NetworkError, match="the same key is given twice"):
        parse_network({**SMALL, "keys": keys})


# --- what the coordinator reads -------------------------------------------------------------------


@pytest.mark.parametrize("name", shipped_networks())
def test_the_coordinator_reads_the_same_network_without_agent_code(name: str) -> None:
    public, whole = load_public_network(name), load_network(name)
    assert public.to_toml() == whole.to_toml()
    assert [public.parameters(a) for a in public.agents] == [
        whole.parameters(a) for a in whole.agents
    ]


def test_the_coordinator_loads_no_agent_code() -> None:
    code = (
        "import sys\n"
        "sys.modules['cpgt.agent'] = sys.modules['scipy'] = sys.modules['networkx'] = None\n"
        "from cpgt.configuration.loading import load_public_network\n"
        "network = load_public_network('paper', ['graph.kind=torus', 'graph.agents=9'])\n"
        "print(network.neighbours[1], network.noisy)\n"
        "try: load_public_network('paper', ['compressor.kind=sign'])\n"
        "except ValueError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0] == "(2, 3, 4, 7) True"
    assert lines[1].startswith("--set compressor.kind: needs agent code")


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_noise_is_missing_where_the_algorithm_adds_none(kind: str) -> None:
    """What the coordinator can tell from the file alone is what the algorithm itself does."""
    family = ALGORITHMS[kind]
    noise = {"s_x": 1.0, "s_y": float(family.make.channels > 1)} if family.adds_noise else {}
    tables = {**SMALL, "algorithm": {"kind": kind, "alpha": 0.1}, "noise": noise}
    network = parse_network(tables)
    assert network.noisy == family.adds_noise
    assert network.noisy == all(network.algorithm_of(1).noise.scales)
    if family.adds_noise:
        silent = {**noise, "agents": {3: {"s_x": 0.0}}}
        assert not parse_network({**tables, "noise": silent}).noisy
