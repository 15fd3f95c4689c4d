"""The frame of the data plane: one round of one agent, as all its neighbours receive it.

| part    | size                       | meaning                                         |
|---------|----------------------------|-------------------------------------------------|
| sender  | 1, 2, 3, 5 or 9 B          | number of the agent, unsigned msgpack integer   |
| round   | 1, 2, 3, 5 or 9 B          | number of the round, unsigned msgpack integer   |
| payload | up to the end of the frame | the compressed, noised differences (`payloads`) |

Sender and round take 2 to 4 B together for up to 127 agents and 65,535 rounds. ZeroMQ delivers the
length of the frame, so the payload needs no header.
"""

from __future__ import annotations

import msgpack

from cpgt.wire.errors import ProtocolError

LARGEST_ONE_BYTE = 127
SIZES = {0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9}  # of longer integers, by their first byte
_packer = msgpack.Packer()  # making one takes as long as packing a message


def build_frame(sender: int, round_: int, payload: bytes) -> bytes:
    frame: bytes = _packer.pack(sender) + _packer.pack(round_) + payload
    return frame


def parse_frame(frame: bytes) -> tuple[int, int, bytes]:
    """Sender, round and payload. Total: anything else raises a ProtocolError."""
    try:
        sender, end_of_sender = _parse_integer(frame, 0)
        round_, end_of_round = _parse_integer(frame, end_of_sender)
    except LookupError:
        raise ProtocolError("data message without sender and round") from None
    return sender, round_, frame[end_of_round:]


def _parse_integer(frame: bytes, start: int) -> tuple[int, int]:
    """The integer at `start`, and where it ends.

    msgpack's own Unpacker takes three times as long, and every neighbour's frame passes here.
    """
    first = frame[start]
    if first <= LARGEST_ONE_BYTE:
        return first, start + 1
    end = start + SIZES[first]
    frame[end - 1]  # raises IndexError if the frame ends within the integer
    return int.from_bytes(frame[start + 1 : end], "big"), end
