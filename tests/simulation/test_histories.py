"""Histories of a small network with faults: whatever happens, the bits are those without faults.

A failing seed is printed. `cpgt simulate` replays one history of any network; CPGT_HISTORIES sets
how many are tried here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from cpgt.agent import participant, session, shell
from cpgt.agent.participant import Player
from cpgt.agent.privacy.randomness import seeded_secret
from cpgt.agent.session import Publish
from cpgt.commands.main import main
from cpgt.configuration.loading import load_network
from cpgt.configuration.network import Network
from cpgt.runs.in_process import run
from cpgt.simulation.nodes import AgentProcess
from cpgt.simulation.simulation import SECRET_SEED, Outcome, Simulation, ViolationError
from cpgt.simulation.world import Faults
from cpgt.wire.frames import build_frame, parse_frame

HISTORIES = int(os.environ.get("CPGT_HISTORIES", "5000"))
CHUNKS = 20
SMALL = ["rounds=14", "window=4", "graph.agents=3", "synthetic.dimension=2", "synthetic.rows=3"]


@cache
def network(graph: str = "path") -> Network:
    return load_network("paper", [*SMALL, f"graph.kind={graph}"])


@cache
def undisturbed(graph: str) -> tuple[bytes, ...]:
    return tuple(x.tobytes() for x in run(network(graph), seed=SECRET_SEED).references)


def play(simulation: Simulation) -> Outcome:
    with np.errstate(all="ignore"):
        return simulation.run()


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_history_ends_with_the_same_bits(chunk: int) -> None:
    deaths, graph = 0, ("path", "ring")[chunk % 2]
    for seed in range(chunk, HISTORIES, CHUNKS):
        simulation = Simulation(network(graph), seed, Faults())
        try:
            outcome = play(simulation)
            assert not outcome.reason
            assert tuple(outcome.references[agent] for agent in (1, 2, 3)) == undisturbed(graph)
        except AssertionError as error:
            history = "\n".join(simulation.world.history)
            pytest.fail(f"seed {seed} on a {graph}: {error}\n{history}")
        deaths += outcome.deaths
    assert deaths > 0.5 * HISTORIES / CHUNKS, "processes do die"


def test_a_seed_replays_its_history() -> None:
    first, second = (play(Simulation(network(), 7, Faults())) for _ in range(2))
    assert first == second
    assert play(Simulation(network(), 8, Faults())).history != first.history


def test_without_faults_nothing_is_reported() -> None:
    outcome = play(Simulation(network(), 1, Faults(cuts=0, kills=0, repeats=0)))
    assert not any("killed" in line or "is back" in line for line in outcome.history)
    assert outcome.deaths == 0


class NobodyComesBack(Simulation):
    def start(self, agent: int) -> None:
        if agent not in self.processes:
            super().start(agent)


def test_who_stays_away_ends_the_run_and_is_named() -> None:
    reasons = [
        play(NobodyComesBack(network(), seed, Faults(cuts=0, kills=2))).reason for seed in range(40)
    ]
    assert sum(bool(reason) for reason in reasons) > 10
    for reason in filter(None, reasons):
        assert "has been silent for" in reason, "the one who is missing, and since when"


class Liar(Simulation):
    """Agent 2 sends other messages when it sends a round again: after a victim's restart, too."""

    def on_the_wire(self, process: AgentProcess, frame: bytes) -> bytes:
        sender, round_, payload = parse_frame(frame)
        lies = sender == 2 and (sender, round_) in self.checkers.sent
        super().on_the_wire(process, frame)
        # the last byte holds levels, and stays a valid code
        other = payload[:-1] + bytes((payload[-1] ^ 1,))
        return build_frame(sender, round_, other) if lies else frame


def test_a_neighbour_that_lies_after_a_restart_is_named_and_learns_nothing() -> None:
    """The checkers find any round that is sent twice with different bytes."""
    reasons = [play(Liar(network(), seed, Faults())).reason for seed in range(200)]
    assert sum("agent 2 sent two different messages" in reason for reason in reasons) > 20


# --- the checkers find mistakes -------------------------------------------------------------------


def found(simulation: Callable[[int], Simulation] | None = None, tries: int = 60) -> set[str]:
    """What the checkers say about histories of a network with a mistake."""
    make = simulation or (lambda seed: Simulation(network(), seed, Faults(kills=3)))
    texts = set()
    for seed in range(tries):
        try:
            outcome = play(make(seed))
            same = tuple(outcome.references.get(a) for a in (1, 2, 3)) == undisturbed("path")
            texts.add("" if same else outcome.reason or "other bits")
        except ViolationError as error:
            texts.add(str(error))
    return {text for text in texts if text}


class FreshNoise(Simulation):
    def secret(self, agent: int) -> bytes:
        return seeded_secret(self._disks[agent].started, agent)


def unchecked(player: Player, taken: list[bytes] | None, own: bytes | None) -> None:
    if taken is not None:
        player._received = dict(zip(player._neighbours, taken, strict=True))
        player.step()
    if own is not None:
        player.send()


def test_fresh_noise_after_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(seed: int) -> Simulation:
        return FreshNoise(network(), seed, Faults(kills=3))

    assert any("comes out differently" in text for text in found(make)), "the agent finds it"
    monkeypatch.setattr(Player, "replay", unchecked)
    assert any("twice, with different bytes" in text for text in found(make)), "the checker, too"


def test_a_journal_after_sending(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(shell.Shell):
        def _execute(self, instructions: object) -> None:
            for each in instructions:  # type: ignore[attr-defined]
                late = type(each) is Publish and each.record is not None
                super()._execute([Publish(each.frame) if late else each])
                if late and self.journal:
                    self.journal.append(each.record)

    monkeypatch.setattr("cpgt.simulation.nodes.Shell", Late)
    assert any("before its journal had it" in text for text in found())


@pytest.mark.parametrize("mistake", ["one round retained", "nothing sent again", "no reports kept"])
def test_mistakes_of_the_protocol(monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    if mistake == "one round retained":
        monkeypatch.setattr(participant, "RETAINED", 1)
    elif mistake == "nothing sent again":
        monkeypatch.setattr(Player, "send_again", lambda _self: [])
    else:
        monkeypatch.setattr(session.Session, "restored", lambda *_: [])
    assert found()


# --- the command ----------------------------------------------------------------------------------


def simulate(*arguments: str) -> tuple[int, str]:
    changes = [word for change in SMALL for word in ("--set", change)]
    result = CliRunner().invoke(
        main, ["simulate", "paper", *changes, "--set", "graph.kind=path", *arguments]
    )
    return result.exit_code, result.output


def test_the_command_prints_the_history() -> None:
    code, text = simulate("--seed", "7", "--faults", "kills=3,cuts=1")
    assert code == 0
    assert "agent 1 starts" in text
    assert "the same bits as without faults" in text
    assert simulate("--seed", "7", "--faults", "kills=3,cuts=1") == (code, text)


@pytest.mark.parametrize("faults", ["kills", "floods=2", "kills=-1", "kills=nan"])
def test_faults_that_do_not_exist(faults: str) -> None:
    code, text = simulate("--faults", faults)
    assert code == 2
    assert repr(faults) in text


def test_a_network_with_data_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text(
        'rounds = 5\ndata = "{id}.npz"\n[algorithm]\nalpha = 0.1\n[graph]\nkind = "path"\n'
        'agents = 2\n[objective]\nkind = "least-squares"\n'
    )
    result = CliRunner().invoke(main, ["simulate", str(file)])
    assert result.exit_code == 2
    assert "synthetic: is missing" in result.output
