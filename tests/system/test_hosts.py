"""A coordinator and six agents on seven hosts with separate addresses, encrypted."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cpgt import Result, load_network, run
from cpgt.wire.sizes import zmtp_size
from tests.system.conftest import Commands, rounds_written, rows_of, sets, summary_of, until
from tests.system.hosts import PREFIX, Hosts, HostsError, hosts_or_skip, namespaces

COORDINATOR, AGENTS = 0, range(1, 7)
NEIGHBOURS_OF_3 = (2, 4)
ROUNDS = 3000  # the run is still in progress when a host is cut off
SEED = 5
PORT = 5555


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with hosts_or_skip(1 + len(AGENTS)) as hosts:
        yield hosts


@pytest.fixture(scope="module")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of every party: a key, data, and the network file with all public keys."""
    commands = Commands(tmp_path_factory.mktemp("parties"))
    for made in ("keys", "all"), ("data",):
        options = sets(f"rounds={ROUNDS}", "window=100") if made[0] == "keys" else ()
        assert commands.run(*made, "paper", "--out", "net", *options).returncode == 0
    return commands.folder / "net"


@pytest.fixture(scope="module")
def undisturbed() -> Result:
    return run(load_network("paper", [f"rounds={ROUNDS}"]), seed=SEED)


class LoggedProcess:
    """A process whose log is read while it runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.text = process, ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.text += line

    def wait_for(self, pattern: str, seconds: float = 60) -> re.Match[str]:
        def over() -> bool:
            return self.process.poll() is not None or re.search(pattern, self.text) is not None

        until(over, seconds, f"{pattern!r}")
        found = re.search(pattern, self.text)
        assert found, f"it ended without {pattern!r}:\n{self.text}"
        return found

    def ends_well(self, seconds: float = 60) -> None:
        self.process.wait(seconds)
        self._reader.join(5)
        assert self.process.returncode == 0, self.text


class Spread:
    """The paper's network over hosts: one for the coordinator, and one for each agent."""

    def __init__(self, cpgt: Commands, hosts: Hosts, parties: Path) -> None:
        self.hosts, self.out = hosts, cpgt.folder / "run"
        self._cpgt, self._parties = cpgt, parties
        self._endpoint = f"tcp://{hosts.address(COORDINATOR)}:{PORT}"

    def coordinator(self, *options: str) -> LoggedProcess:
        return self._start(
            COORDINATOR, "coordinator", self._parties / "network.toml", "--bind", self._endpoint,
            "--key", self._parties / "coordinator" / "private.key", "--out", self.out, *options,
        )  # fmt: skip

    def agent(self, number: int, *options: str) -> LoggedProcess:
        own = self._parties / str(number)
        return self._start(
            number, "agent", str(number), "--coordinator", self._endpoint,
            "--network", self._parties / "network.toml", "--key", own / "private.key",
            "--data", own / "data.npz", "--out", self.folder(number),
            "--seed", str(SEED), "--observe", *options,
        )  # fmt: skip

    def folder(self, agent: int) -> Path:
        return self.out / "agents" / str(agent)

    def _start(self, host: int, *arguments: str | Path) -> LoggedProcess:
        self._cpgt.through = list(self.hosts.on(host))
        process = self._cpgt.start(*arguments)
        self._cpgt.through = []
        return LoggedProcess(process)

    def same_as(self, expected: Result, rounds: int) -> None:
        """Check that all states and byte counts equal those of a run inside one process."""
        for agent in AGENTS:
            with np.load(self.folder(agent) / "trace.npz") as trace:
                for name in ("x", "y"):
                    states = getattr(expected, name)[: rounds + 1, agent - 1]
                    assert trace[name].tobytes() == states.tobytes()
        rows = rows_of(self.out)
        assert [row[:5] for row in rows] == [
            [k, *edge, *(int(expected.bytes[layer][k, e]) for layer in ("payload", "message"))]
            for k in range(rounds)
            for e, edge in enumerate(expected.edges)
        ]
        assert all(zmtp == zmtp_size(message, curve=True) for *_, message, zmtp in rows)
        summary = summary_of(self.out)
        assert summary["rounds"] == rounds
        assert summary["bytes"]["reconciled"]


@pytest.fixture
def spread(cpgt: Commands, hosts: Hosts, parties: Path) -> Spread:
    return Spread(cpgt, hosts, parties)


def all_end_well(*processes: LoggedProcess) -> None:
    for process in processes:
        process.ends_well()


def test_bytes_are_those_of_localhost(
    cpgt: Commands, tmp_path: Path, spread: Spread, undisturbed: Result
) -> None:
    all_end_well(spread.coordinator("--rounds", "150"), *map(spread.agent, AGENTS))
    spread.same_as(undisturbed, 150)
    kernel = summary_of(spread.out)["bytes"]["kernel"]
    assert kernel["miscounted"] == kernel["uncheckable"] == []
    options = ("--rounds", "150", "--seed", str(SEED), "--no-compare", "--out", "here")
    assert cpgt.run("run", "paper", *options).returncode == 0
    here = rows_of(tmp_path / "here")
    assert [row[:5] for row in rows_of(spread.out)] == [row[:5] for row in here]


def test_long_wires(cpgt: Commands, parties: Path, undisturbed: Result) -> None:
    with hosts_or_skip(1 + len(AGENTS), delay_ms=20) as hosts:
        spread = Spread(cpgt, hosts, parties)
        all_end_well(spread.coordinator("--rounds", "60"), *map(spread.agent, AGENTS))
    spread.same_as(undisturbed, 60)
    with np.load(spread.folder(1) / "trace.npz") as trace:
        assert np.diff(trace["time"][:, 0]).mean() > 0.020, "a round takes at least one delay"


def under_way(spread: Spread, *options: str) -> tuple[LoggedProcess, dict[int, LoggedProcess]]:
    coordinator = spread.coordinator(*options)
    agents = {number: spread.agent(number) for number in AGENTS}
    until(lambda: rounds_written(spread.out) > 200, 60, "the run to be under way")
    return coordinator, agents


def test_a_host_that_is_cut_off_for_ten_seconds(spread: Spread, undisturbed: Result) -> None:
    """The run waits and logs for whom. It resumes when the host is back, with the same results."""
    coordinator, agents = under_way(spread)
    spread.hosts.cut(3)
    ends = time.monotonic() + 10
    try:
        notice = coordinator.wait_for(r"waiting for agent 3 \(for (\d+) s\), round (\d+)")
        assert int(notice[1]) <= 4
        assert 200 <= int(notice[2]) < ROUNDS
        for neighbour in NEIGHBOURS_OF_3:
            assert agents[neighbour].wait_for(r"waiting for .*\(for \d s\), round \d+")
        agents[3].wait_for(r"the coordinator is silent \(for \d s\)")
        threading.Event().wait(ends - time.monotonic())
        assert "going on" not in coordinator.text, "nothing gets through"
    finally:
        spread.hosts.heal(3)
    coordinator.wait_for("going on, round", 20)
    all_end_well(coordinator, *agents.values())
    assert "the coordinator is back" in agents[3].text
    words = "reconnected; sending the last rounds again"
    assert any(words in agents[i].text for i in (*NEIGHBOURS_OF_3, 3))
    spread.same_as(undisturbed, ROUNDS)
    kernel = summary_of(spread.out)["bytes"]["kernel"]
    assert kernel["miscounted"] == []
    assert 3 in np.unique(kernel["uncheckable"]), "its connections were lost"


def test_a_coordinator_that_is_cut_off(spread: Spread, undisturbed: Result) -> None:
    coordinator, agents = under_way(spread)
    spread.hosts.cut(COORDINATOR)
    ends = time.monotonic() + 6
    try:
        for agent in agents.values():
            agent.wait_for(r"the coordinator is silent \(for \d s\); waiting for it")
        threading.Event().wait(max(0.0, ends - time.monotonic()))
    finally:
        spread.hosts.heal(COORDINATOR)
    all_end_well(coordinator, *agents.values())
    spread.same_as(undisturbed, ROUNDS)
    kernel = summary_of(spread.out)["bytes"]["kernel"]
    assert kernel["uncheckable"] == [], "no connection between agents was lost"


def test_agents_come_before_the_coordinator_and_long_after_it(
    spread: Spread, undisturbed: Result
) -> None:
    early = spread.agent(1)
    until(lambda: spread.hosts.listening(1), 30, "agent 1 to listen")
    coordinator = spread.coordinator("--rounds", "30")
    coordinator.wait_for("agent 1 is here")
    others = [spread.agent(number) for number in (2, 3, 4, 5)]
    coordinator.wait_for(r"waiting for agent 6 \(for \d+ s\)")
    early.wait_for("waiting for agent 6")
    coordinator.wait_for(
        r"(?s)waiting for agent 6 \(for \d+ s\).*waiting for agent 6 \(for \d\d s\)"
    )
    all_end_well(spread.agent(6), coordinator, early, *others)
    spread.same_as(undisturbed, 30)


# --- the hosts themselves -------------------------------------------------------------------------


def made_here() -> set[str]:
    return {name for name in namespaces() if name.startswith(f"{PREFIX}-{os.getpid()}-")}


@pytest.mark.usefixtures("hosts")
def test_hosts_are_gone_when_a_test_fails() -> None:
    before = made_here()
    with pytest.raises(ZeroDivisionError), Hosts(2, delay_ms=1):
        assert len(made_here() - before) == 3, "two hosts and a switch"
        raise ZeroDivisionError
    with pytest.raises(HostsError), Hosts(2, rate="a lot"):
        pass
    assert made_here() == before


@pytest.mark.parametrize(
    ("ci", "ends"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)]
)
def test_without_the_rights_tests_are_skipped_but_not_in_ci(
    monkeypatch: pytest.MonkeyPatch, ci: str, ends: type[BaseException]
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr("tests.system.hosts.IP", "/bin/false")
    with pytest.raises(ends, match="no network namespaces here: /bin/false"), hosts_or_skip(2):
        pass
