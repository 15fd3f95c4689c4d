"""The byte ledger: what every directed edge carried in every round, at every layer.

Agents report what they sent (every neighbour gets the same frame) and what they received; rows are appended
to bytes.csv window by window, in the order round, sender, receiver. The kernel is asked once a window: what
it counted since the time before stands in the row of the window's last round (docs/decisions/0007).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, repeat, zip_longest
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

from cpgt.coordinator.connections import Connection
from cpgt.coordinator.errors import RunError
from cpgt.wire.kernel import Counts
from cpgt.wire.messages import Report
from cpgt.wire.sizes import zmtp_size

LAYERS = ("payload", "message", "zmtp")
ROUND = "k"  # stands for the number of the round in rows that are used again
Edge: TypeAlias = tuple[int, int]
Sizes: TypeAlias = tuple[int, int, tuple[int | str, ...]]  # payload, message, tcp on each edge


@dataclass
class EdgeTotal:
    """What one directed edge carried so far."""

    rounds: int = 0
    bytes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LAYERS, 0))
    received: int = 0  # message bytes, as counted by the receiver
    resent: int = 0  # bytes of frames that were sent once more
    unsettled: bool = (
        False  # some of them so late that they may be on their way while the kernel is asked
    )
    connection: Connection = field(default_factory=Connection)
    sampled: int = 0  # how many of the connection's bytes stand in bytes.csv

    @property
    def checkable(self) -> bool:
        return self.connection.checkable and not self.unsettled


class TrafficLog:
    def __init__(
        self, path: Path, neighbours: Mapping[int, tuple[int, ...]], *, curve: bool = False
    ) -> None:
        self.curve = curve  # whether frames are encrypted, which makes them longer
        self._neighbours = {
            agent: tuple(sorted(peers)) for agent, peers in sorted(neighbours.items())
        }
        self._pending: dict[int, dict[int, Report]] = {}  # first round -> agent -> report
        self.edges: dict[Edge, EdgeTotal] = {
            (sender, receiver): EdgeTotal()
            for sender, peers in self._neighbours.items()
            for receiver in peers
        }
        self.resent = 0
        self._path = path

    def record(self, agent: int, report: Report) -> None:
        for peer, size in report.received.items():
            if (peer, agent) in self.edges:
                self.edges[peer, agent].received += size
        self.resent += sum(report.resent)
        self._note_connections(agent, report)
        window = self._pending.setdefault(report.first, {})
        window[agent] = report
        if len(window) == len(self._neighbours):
            self._write(self._pending.pop(report.first))

    def _note_connections(self, agent: int, report: Report) -> None:
        for peer in self._neighbours[agent]:
            there, back = self.edges[agent, peer], self.edges[peer, agent]
            there.unsettled = there.unsettled or bool(report.resent and not report.message_bytes)
            there.resent += sum(map(self._frame, report.resent))
            if peer in report.sending:
                there.connection.sender = Counts(*report.sending[peer])
            if peer in report.receiving:
                back.connection.receiver = Counts(*report.receiving[peer])

    def total(self, layer: str) -> int:
        return sum(edge.bytes[layer] for edge in self.edges.values())

    @property
    def unreconciled(self) -> list[Edge]:
        """Edges on which the receiver counted other message bytes than the sender."""
        return [
            edge for edge, total in self.edges.items() if total.bytes["message"] != total.received
        ]

    @property
    def uncheckable(self) -> list[Edge]:
        """Edges whose bytes not both kernels have counted from the start to the end."""
        return [edge for edge, total in self.edges.items() if not total.checkable]

    @property
    def miscounted(self) -> list[Edge]:
        """Edges on which handshake and frames are not, to the byte, what the kernels sent and received. To be
        asked at the end of a run: before, there are bytes on the way."""
        return [
            (sender, receiver)
            for (sender, receiver), total in self.edges.items()
            if total.checkable
            and total.connection.differs(
                receiver, total.bytes["zmtp"] + total.resent, curve=self.curve
            )
        ]

    def _frame(self, message: int) -> int:
        return zmtp_size(message, curve=self.curve)

    def _write(self, window: Mapping[int, Report]) -> None:
        first = min(report.first for report in window.values())
        agents = sorted(window)

        @cache  # rounds are nearly always of one size
        def rows_of(sizes: tuple[Sizes | None, ...]) -> str:
            rows = []
            for agent, found in zip(agents, sizes, strict=True):
                if found:
                    payload, message, tcp = found
                    columns = f"{payload},{message},{self._frame(message)}"
                    edges = zip(self._neighbours[agent], tcp, strict=True)
                    rows += [
                        f"{ROUND},{agent},{peer},{columns},{counted}\n" for peer, counted in edges
                    ]
            return "".join(rows)

        for k, sizes in enumerate(
            zip_longest(*(self._sizes(agent, window) for agent in agents)), first
        ):
            self._file.write(rows_of(sizes).replace(ROUND, str(k)))
        self._file.flush()
        for agent, report in window.items():
            sums = (
                sum(report.payload_bytes),
                sum(report.message_bytes),
                sum(
                    number * self._frame(size)
                    for size, number in Counter(report.message_bytes).items()
                ),
            )
            for peer in self._neighbours[agent]:
                total = self.edges[agent, peer]
                total.rounds += len(report.message_bytes)
                for layer, size in zip(LAYERS, sums, strict=True):
                    total.bytes[layer] += size

    def _sizes(self, agent: int, window: Mapping[int, Report]) -> Iterator[Sizes]:
        """Of the agent's rounds in this window: payload, message, and in the last what kernels counted."""
        report, peers = window[agent], self._neighbours[agent]
        uncounted: tuple[int | str, ...] = ("",) * len(peers)
        counted = tuple(
            self._sample(agent, window.get(peer), peer) for peer in peers if report.message_bytes
        )
        tcp = chain(repeat(uncounted, len(report.message_bytes) - 1), repeat(counted))
        return zip(report.payload_bytes, report.message_bytes, tcp)  # noqa: B905  # tcp has no end

    def _sample(self, sender: int, report: Report | None, receiver: int) -> int | str:
        """Bytes that the receiver's kernel has got since its report before this one, if it says."""
        if report is None or sender not in report.receiving:
            return ""
        total, received = self.edges[sender, receiver], Counts(*report.receiving[sender]).received
        before, total.sampled = total.sampled, received
        return received - before

    def __enter__(self) -> TrafficLog:
        try:
            self._file = self._path.open("x", encoding="ascii")
        except FileExistsError:
            message = f"{self._path} exists already: choose another --out, nothing is overwritten"
            raise RunError(message, 2) from None
        except OSError as error:
            raise RunError(f"cannot write {self._path}: {error.strerror}", 2) from None
        self._file.write("round,sender,receiver,payload,message,zmtp,tcp\n")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Write what is known of windows that not everybody could finish."""
        for first in sorted(self._pending):
            self._write(self._pending[first])
        self._pending.clear()
        self._file.close()
