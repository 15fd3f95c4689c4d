"""One history of a network: faults from a seed, and checkers after every step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from cpgt.agent.privacy.randomness import Randomness, seeded_secret
from cpgt.agent.settings import AgentSettings, ConnectSettings
from cpgt.configuration.data import make_data
from cpgt.configuration.network import Network
from cpgt.coordinator.session import Phase, SessionSettings
from cpgt.simulation.nodes import AgentProcess, Coordinator, Disk
from cpgt.simulation.world import Faults, World
from cpgt.wire.frames import parse_frame
from cpgt.wire.messages import Report

SECRET_SEED = 0  # of the agents' noise, the same in all histories
LONGEST = 3600.0  # simulated seconds of a history
RESTART_SECONDS = 4.0  # at most, from a death to the next start


class ViolationError(AssertionError):
    """A checker found what must never happen."""


@dataclass
class Checkers:
    """What must hold after every step."""

    sent: dict[tuple[int, int], bytes] = field(default_factory=dict)  # agent, round -> frame
    known: dict[int, int] = field(default_factory=dict)

    def published(self, process: AgentProcess, frame: bytes) -> None:
        agent, round_, payload = parse_frame(frame)
        if self.sent.setdefault((agent, round_), frame) != frame:
            raise ViolationError(f"agent {agent} sent round {round_} twice, with different bytes")
        if payload not in process.disk.journal:
            raise ViolationError(f"agent {agent} sent round {round_} before its journal had it")

    def reported(self, agent: int, report: Report) -> None:
        if report.first != self.known.get(agent, 0):
            raise ViolationError(f"agent {agent} reported from round {report.first}")
        self.known[agent] = report.first + len(report.message_bytes)


@dataclass(frozen=True)
class Outcome:
    """How a history ended."""

    references: Mapping[int, bytes]  # of each agent; empty if the run failed
    reason: str  # why it failed
    seconds: float
    deaths: int
    history: list[str]


class Simulation:
    def __init__(self, network: Network, seed: int, faults: Faults) -> None:
        self.network, self.faults = network, faults
        self.world, self.checkers = World(seed), Checkers()
        self.processes: dict[int, AgentProcess] = {}
        self.deaths = 0
        self._disks = {agent: Disk() for agent in network.agents}
        self._data = {agent: make_data(network, agent) for agent in network.agents}
        self.coordinator = Coordinator(self, self._settings())
        for agent in network.agents:
            self.world.after(self.world.chance.random(), partial(self.start, agent))
        self._plan_faults()

    def run(self) -> Outcome:
        session = self.coordinator.session
        while session.phase is not Phase.DONE:
            self.world.step()
            if self.world.now > LONGEST:
                raise ViolationError(f"nobody ended the run within {LONGEST:g} s")
        finished = {agent: member.finished for agent, member in session.members.items()}
        references = {agent: f.reference for agent, f in finished.items() if f}
        reason = session.failure.reason if session.failure else ""
        self.world.note(reason or "the run is complete")
        return Outcome(
            {} if reason else references, reason, self.world.now, self.deaths, self.world.history
        )

    def start(self, agent: int) -> None:
        randomness = Randomness(self.secret(agent))
        connect = ConnectSettings("tcp://coordinator:1", patience=60.0)
        settings = AgentSettings(agent, connect, randomness, seeded=True, journal=True)
        self.world.note(f"agent {agent} starts")
        self.processes[agent] = AgentProcess(self, settings, self._data[agent], self._disks[agent])

    def secret(self, agent: int) -> bytes:
        return seeded_secret(SECRET_SEED, agent)

    def on_the_wire(self, process: AgentProcess, frame: bytes) -> bytes:
        """The frame that leaves the process. A test may change it."""
        self.checkers.published(process, frame)
        return frame

    def died(self, process: AgentProcess) -> None:
        self.deaths += 1
        round_ = process.machine.session.round
        self.world.note(f"agent {process.agent} is killed in round {round_}")
        process.to_coordinator.open &= self.world.chance.random() < 0.5
        for pipe in process.sockets.outgoing.values():
            pipe.open &= self.world.chance.random() < 0.5  # what the kernel still had to send
        delay = self.world.chance.random() * RESTART_SECONDS
        self.world.after(delay, partial(self.start, process.agent))

    def left(self, process: AgentProcess) -> None:
        if process.error:
            self.world.note(f"agent {process.agent} leaves: {process.error}")

    # --- faults -----------------------------------------------------------------------------------

    def _plan_faults(self) -> None:
        """At random times of the run, which takes about this long."""
        chance, seconds = self.world.chance, self.network.rounds * self.faults.delay
        for what, mean in ((self._kill, self.faults.kills), (self._cut, self.faults.cuts)):
            for _ in range(round(chance.expovariate(1 / mean)) if mean else 0):
                self.world.after(1.0 + chance.random() * seconds, what)

    def _kill(self) -> None:
        chance = self.world.chance
        victim = self.processes.get(chance.choice(list(self.network.agents)))
        # An agent that has no journal yet never sent anything, and cannot come back.
        if victim and victim.alive and victim.disk.journal:
            victim.kill_soon(chance.randrange(8))

    def _cut(self) -> None:
        chance = self.world.chance
        victim = self.processes.get(chance.choice(list(self.network.agents)))
        if victim is None or not victim.alive:
            return
        down = chance.random() * RESTART_SECONDS
        if chance.random() < 0.3:
            self.world.note(f"agent {victim.agent} loses the coordinator for {down:.1f} s")
            victim.to_coordinator.open = victim.from_coordinator.open = False
            self.world.after(down, victim.reconnect_control)
        elif victim.sockets.outgoing:
            peer = chance.choice(list(victim.sockets.outgoing))
            self.world.note(f"agent {peer} loses agent {victim.agent} for {down:.1f} s")
            victim.sockets.outgoing.pop(peer).open = False
            receiver = self.processes[peer]
            self.world.after(down, partial(receiver.subscribe, victim.agent, victim.endpoint))

    def _settings(self) -> SessionSettings:
        network = self.network
        return SessionSettings(
            weights={agent: network.topology.row(agent) for agent in network.agents},
            parameters={agent: network.parameters(agent) for agent in network.agents},
            rounds=network.rounds,
            window=network.window,
            patience=network.patience,
            gather_seconds=60.0,
            stop_change=network.stop.change,
            tickets={agent: f"ticket {agent}" for agent in network.agents},
        )
