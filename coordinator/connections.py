"""The TCP connection of one directed edge, as the kernels at its two ends count it.

Frames go in one direction. In the other one, the subscriber sends its handshake, and after that
only acknowledgements, which are segments without bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from cpgt.wire.kernel import Counts
from cpgt.wire.sizes import publisher_handshake, subscriber_handshake
from cpgt.wire.transports import topics


@dataclass
class Connection:
    sender: Counts | None = None
    receiver: Counts | None = None

    @property
    def carried(self) -> int | None:
        """Bytes of the sender that have reached the receiver's kernel."""
        return self.receiver.received if self.receiver else None

    @property
    def segments(self) -> int | None:
        """Segments in both directions."""
        ends = self._ends
        return ends and sum(end.segments_out for end in ends)

    @property
    def headers(self) -> int | None:
        """Bytes of the headers of all these segments."""
        ends = self._ends
        return ends and sum(end.headers_out for end in ends)

    @property
    def on_the_link(self) -> int | None:
        """Bytes of all these segments with their headers: what a real link would carry."""
        ends = self._ends
        return ends and sum(end.sent + end.headers_out for end in ends)

    @property
    def _ends(self) -> tuple[Counts, Counts] | None:
        return (self.sender, self.receiver) if self.sender and self.receiver else None

    @property
    def checkable(self) -> bool:
        """Whether both ends counted from the start. After a reconnect, some bytes are unknown."""
        return self._ends is not None and all(end.connections == 1 for end in self._ends)

    def differs(self, receiver: int, frame_bytes: int, *, curve: bool) -> bool:
        """Whether a kernel counted anything else than each side's handshake and the frames."""
        assert self.sender and self.receiver
        there = publisher_handshake(curve=curve) + frame_bytes
        back = subscriber_handshake(topics(receiver), curve=curve)
        return not (
            _new_bytes(self.sender) == self.receiver.received == there
            and _new_bytes(self.receiver) == self.sender.received == back
        )


def _new_bytes(end: Counts) -> int:
    """Bytes sent, each counted once."""
    return end.sent - end.retransmitted
