"""An agent as a machine: events and time in, instructions out. No sockets, clocks and files.

The session has the rules of the run. The machine adds the rounds: it sends the message of a round,
takes the neighbours' frames, steps, and goes on as long as the session allows and no frame is
missing. The caller reports each event with its time and executes the instructions in order. After
`Attend` nothing follows: the machine goes on with the next event.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cpgt.agent.lifecycle import Phase
from cpgt.agent.participant import Player
from cpgt.agent.privacy.mechanisms import PrivacyAccount
from cpgt.agent.session import Attend, Instruction, KernelCounts, Publish, Session
from cpgt.agent.settings import AgentSettings
from cpgt.wire.messages import Control, Hello

NOTHING: tuple[Instruction, ...] = ()


class Machine:
    def __init__(self, settings: AgentSettings, now: float) -> None:
        self.session = Session(settings, now)
        self._agent = settings.agent
        self._player: Player | None = None
        self._until = 0  # rounds below this one are played before the session is asked again
        self._sent = False  # the message of the current round

    @property
    def playing(self) -> bool:
        """Whether frames of neighbours are expected. They are not read in other phases."""
        return self.session.phase is Phase.PLAYING

    def hello(self, endpoint: str) -> Hello:
        """The first message, with the endpoint at which neighbours reach this agent."""
        return Hello(self._agent, endpoint)

    def prepared(
        self, player: Player, spending: PrivacyAccount | None, kernel_counts: KernelCounts
    ) -> None:
        """What `Prepare` asked for is there."""
        self._player = player
        self.session.prepared(player, spending, kernel_counts)

    # --- events -----------------------------------------------------------------------------------

    def received(self, message: Control, now: float) -> list[Instruction]:
        """The coordinator sent a message."""
        return [*self.session.received(message, now), *self._go_on(now)]

    def subscribed(self, agents: Collection[int]) -> list[Instruction]:
        """Neighbours subscribed to this agent's frames. A second time means a reconnect."""
        return self.session.subscribed(agents)

    def frame(self, frame: bytes, now: float) -> Sequence[Instruction]:
        """A neighbour's frame arrived."""
        player = self._player
        assert player
        player.accept(frame)
        return self._go_on(now) if player.complete else NOTHING

    def no_frame(self, now: float) -> list[Instruction]:
        """No frame has come for POLL_MS, and one is missing."""
        waits = self.playing and self._sent
        return self.session.no_frame(now) if waits else []

    def tick(self, now: float) -> list[Instruction]:
        """Time has passed. Report it several times a second."""
        return [*self.session.tick(now), *self._go_on(now)]

    # --- rounds -----------------------------------------------------------------------------------

    def _go_on(self, now: float) -> list[Instruction]:
        """Play until a frame is missing, or there is something to attend to first."""
        session, player = self.session, self._player
        instructions: list[Instruction] = []
        while session.phase is Phase.PLAYING and player:
            if self._sent:
                if not player.complete:
                    break
                player.step()
                self._sent = False
            if player.round >= self._until:
                instructions += session.rounds_played(now)
                self._until = session.play_until()
                instructions.append(Attend())
                break
            instructions += session.begin_round(now)
            instructions.append(Publish(player.send()))
            self._sent = True
            # long rounds: a window may take minutes, and an agent alone never waits for a frame
            if session.pulse_due(now) or player.alone:
                instructions.append(Attend())
                break
        return instructions
