"""An agent as a machine: events and time in, instructions out. No sockets, clocks and files.

The session has the rules of the run. The machine adds the rounds: it sends the message of a round,
takes the neighbours' frames, steps, and goes on as long as the session allows and no frame is
missing. The caller reports each event with its time and executes the instructions in order. With
`Attend`, the machine goes on only after the next event.

Frames are taken in two steps, because most of them change nothing yet, and every call counts where
a round takes 60 us (docs/decisions/0014): `accept` keeps one, and if it was the last that was
missing, `go_on` plays.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cpgt.agent.checkpoint import decode, encode
from cpgt.agent.journal import Kept, encode_round
from cpgt.agent.lifecycle import Phase
from cpgt.agent.participant import Player
from cpgt.agent.privacy.mechanisms import PrivacyAccount
from cpgt.agent.session import Attend, Begin, Instruction, Keep, KernelCounts, Publish, Session
from cpgt.agent.settings import AgentSettings
from cpgt.wire.messages import Control, Hello, Plan, decode_control

ATTEND, PLAYING = Attend(), Phase.PLAYING
CHECKPOINT_BYTES = 1 << 20  # some thousand short rounds, or a window of long ones


class Machine:
    def __init__(
        self, settings: AgentSettings, now: float, kept: Kept | None = None,
        checkpoint_bytes: int = CHECKPOINT_BYTES,
    ) -> None:  # fmt: skip
        """`kept` is the journal of this agent's process that died. A window ends with a checkpoint
        if the rounds since the last one take more than `checkpoint_bytes`."""
        before = decode_control(kept.header.plan) if kept else None
        assert before is None or isinstance(before, Plan)
        self.session = Session(settings, now, before)
        self._agent, self._kept, self._journal = settings.agent, kept, settings.journal
        self._kept_bytes, self._limit = 0, checkpoint_bytes  # since the last checkpoint; till next
        self._taken: list[bytes] | None = None  # payloads that the journal does not have yet
        self._player: Player | None = None
        self._until = 0  # rounds below this one are played before the session is asked again
        self._sent = False  # the message of the current round

    @property
    def playing(self) -> bool:
        """Whether frames of neighbours are expected. They are not read in other phases."""
        return self.session.phase is PLAYING

    def hello(self, endpoint: str) -> Hello:
        """The first message, with the endpoint at which neighbours reach this agent."""
        return Hello(self._agent, endpoint, self.session.ticket)

    def prepared(
        self,
        player: Player,
        spending: PrivacyAccount | None,
        kernel_counts: KernelCounts,
        now: float,
    ) -> list[Instruction]:
        """What `Prepare` asked for is there."""
        self._player = player
        self.accept = player.accept  # type: ignore[method-assign]  # one call less for each frame
        self.session.prepared(player, spending, kernel_counts)
        if self._kept:
            return self._replay(self._kept, now)
        return self._checkpoint()

    # --- events -----------------------------------------------------------------------------------

    def received(self, message: Control, now: float) -> list[Instruction]:
        """The coordinator sent a message."""
        return [*self.session.received(message, now), *self.go_on(now)]

    def subscribed(self, agents: Collection[int]) -> list[Instruction]:
        """Neighbours subscribed to this agent's frames. A second time means a reconnect."""
        return self.session.subscribed(agents)

    def accept(self, frame: bytes) -> bool:
        """A neighbour's frame arrived. Returns whether to call `go_on`."""
        assert self._player
        return self._player.accept(frame)

    def no_frame(self, now: float) -> list[Instruction]:
        """No frame has come for POLL_MS, and one is missing."""
        waits = self.playing and self._sent
        return self.session.no_frame(now) if waits else []

    def tick(self, now: float) -> list[Instruction]:
        """Time has passed. Report it several times a second."""
        return [*self.session.tick(now), *self.go_on(now)]

    # --- rounds -----------------------------------------------------------------------------------

    def go_on(self, now: float) -> Sequence[Instruction]:
        """Play until a frame is missing, or there is something to attend to first."""
        session, player = self.session, self._player
        if session.phase is not PLAYING or player is None:
            return ()
        if self._sent:
            if not player.complete:
                return ()
            player.step()
            self._sent = False
            self._taken = player.taken
        if player.round >= self._until:
            return self._window_played(now)
        begun = session.begin_round(now)
        frame = player.send()
        record = None
        if self._journal:
            record = encode_round(self._taken, player.payload)
            self._taken = None
            self._kept_bytes += len(record)
        self._sent = True
        publish = Publish(frame, record)
        if not (begun or player.complete):
            return (publish,)
        # An agent alone never waits for a frame, and its rounds may be long.
        attend = (ATTEND,) if player.alone else ()
        more = () if attend or ATTEND in begun else self.go_on(now)
        return (*begun, publish, *attend, *more)

    def _window_played(self, now: float) -> list[Instruction]:
        """A report must not be sent before the rounds that it is about are kept."""
        kept = self._journal and self._taken is not None
        keep = [Keep(encode_round(self._taken, None))] if kept else []
        self._taken = None
        played = self.session.rounds_played(now)
        self._until = self.session.play_until()
        assert self._player
        due = self._kept_bytes > self._limit and not self._player.meter.payload
        return [*keep, *played, *(self._checkpoint() if due else []), ATTEND]

    # --- the journal ------------------------------------------------------------------------------

    def _checkpoint(self) -> list[Instruction]:
        if not self._journal:
            return []
        stored = encode(self.session.checkpoint())
        self._kept_bytes = 0
        return [Begin(stored)]

    def _replay(self, kept: Kept, now: float) -> list[Instruction]:
        """From the checkpoint, where the player is, to where the process died. Sends no frame."""
        player, session = self._player, self.session
        assert player and session.plan
        instructions = session.restored(decode(kept.checkpoint), now)
        for taken, own in kept.rounds:
            player.replay(taken, None)
            if taken is not None and player.round % session.plan.window == 0:
                instructions += session.window_replayed(now)
            player.replay(None, own)
            self._sent = own is not None
        return instructions
