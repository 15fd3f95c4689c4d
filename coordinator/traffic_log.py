"""The traffic log: bytes that each directed edge carries in each round, at each layer.

Agents report what they sent (all neighbours get the same frame) and what they received. Rows are
appended to bytes.csv window by window, in the order round, sender, receiver. The kernel is asked
once a window. What it counted since the previous time stands in the row of the window's last round
(docs/decisions/0007). windows.csv, beside it, has one row for each window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, repeat, zip_longest
from pathlib import Path
from typing import TypeAlias

from cpgt.coordinator.connections import Connection
from cpgt.coordinator.errors import RunError
from cpgt.coordinator.window_log import LAYERS, WindowLog
from cpgt.process.exit_codes import BAD_INPUT
from cpgt.wire.kernel import Counts
from cpgt.wire.messages import Report
from cpgt.wire.sizes import zmtp_size

__all__ = ["LAYERS", "Edge", "EdgeTotal", "TrafficLog"]

ROUND = "k"  # stands for the number of the round in rows that are used again
Edge: TypeAlias = tuple[int, int]  # sender, receiver
Sizes: TypeAlias = tuple[int, int, tuple[int | str, ...]]  # payload, message, tcp on each edge


@dataclass
class EdgeTotal:
    """What one directed edge has carried so far."""

    rounds: int = 0
    bytes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LAYERS, 0))
    received: int = 0  # message bytes, as counted by the receiver
    resent: int = 0  # bytes of frames that were sent again
    resent_late: bool = False  # after the last window: they may arrive after the kernel is asked
    connection: Connection = field(default_factory=Connection)
    logged: int = 0  # bytes of the connection that bytes.csv contains

    @property
    def checkable(self) -> bool:
        return self.connection.checkable and not self.resent_late


class TrafficLog:
    def __init__(
        self, path: Path, neighbours: Mapping[int, tuple[int, ...]], *, curve: bool = False
    ) -> None:
        self.curve = curve  # whether frames are encrypted, which makes them longer
        self.resent = 0  # bytes of messages that were sent again
        self._neighbours = {a: tuple(sorted(peers)) for a, peers in sorted(neighbours.items())}
        self.edges: dict[Edge, EdgeTotal] = {
            (sender, receiver): EdgeTotal()
            for sender, peers in self._neighbours.items()
            for receiver in peers
        }
        self._pending: dict[int, dict[int, Report]] = {}  # first round -> agent -> report
        self._path = path
        self.windows = WindowLog(path.with_name("windows.csv"))

    def record(self, agent: int, report: Report) -> None:
        for peer, size in report.received.items():
            if (peer, agent) in self.edges:
                self.edges[peer, agent].received += size
        self.resent += sum(report.resent)
        self._update_connections(agent, report)
        window = self._pending.setdefault(report.first, {})
        window[agent] = report
        if len(window) == len(self._neighbours):
            self._write(self._pending.pop(report.first))
            self.windows.write(window, self.edges.values())

    def _update_connections(self, agent: int, report: Report) -> None:
        for peer in self._neighbours[agent]:
            there, back = self.edges[agent, peer], self.edges[peer, agent]
            there.resent += sum(map(self._frame_size, report.resent))
            if report.resent and not report.message_bytes:
                there.resent_late = True
            if peer in report.sending:
                there.connection.sender = Counts(*report.sending[peer])
            if peer in report.receiving:
                back.connection.receiver = Counts(*report.receiving[peer])

    def total(self, layer: str) -> int:
        return sum(edge.bytes[layer] for edge in self.edges.values())

    @property
    def unreconciled(self) -> list[Edge]:
        """Edges on which the receiver counted other message bytes than the sender."""
        edges = self.edges.items()
        return [edge for edge, total in edges if total.bytes["message"] != total.received]

    @property
    def uncheckable(self) -> list[Edge]:
        """Edges whose bytes were not counted by both kernels from the start to the end."""
        return [edge for edge, total in self.edges.items() if not total.checkable]

    @property
    def miscounted(self) -> list[Edge]:
        """Edges on which the kernels did not count exactly the handshake and the frames. Meaningful
        at the end of a run only: before that, some bytes are on the way."""
        return [
            (sender, receiver)
            for (sender, receiver), total in self.edges.items()
            if total.checkable
            and total.connection.differs(
                receiver, total.bytes["zmtp"] + total.resent, curve=self.curve
            )
        ]

    def _frame_size(self, message: int) -> int:
        return zmtp_size(message, curve=self.curve)

    def _write(self, window: Mapping[int, Report]) -> None:
        self._write_rows(window)
        for agent, report in window.items():
            counts = Counter(report.message_bytes)
            frames = sum(number * self._frame_size(size) for size, number in counts.items())
            sums = (sum(report.payload_bytes), sum(report.message_bytes), frames)
            for peer in self._neighbours[agent]:
                total = self.edges[agent, peer]
                total.rounds += len(report.message_bytes)
                for layer, size in zip(LAYERS, sums, strict=True):
                    total.bytes[layer] += size

    def _write_rows(self, window: Mapping[int, Report]) -> None:
        agents = sorted(window)

        @cache  # most rounds have the same sizes
        def rows_of(sizes: tuple[Sizes | None, ...]) -> str:
            return "".join(
                f"{ROUND},{agent},{peer},{payload},{message},{self._frame_size(message)},{counted}\n"
                for agent, (payload, message, tcp) in _reported(agents, sizes)
                for peer, counted in zip(self._neighbours[agent], tcp, strict=True)
            )

        first = window[agents[0]].first
        rounds = zip_longest(*(self._sizes(agent, window) for agent in agents))
        for k, sizes in enumerate(rounds, first):
            self._file.write(rows_of(sizes).replace(ROUND, str(k)))
        self._file.flush()

    def _sizes(self, agent: int, window: Mapping[int, Report]) -> Iterator[Sizes]:
        """Sizes of each round of the agent; the last one has the kernels' counts, too."""
        report, peers = window[agent], self._neighbours[agent]
        rounds = len(report.message_bytes)
        uncounted: tuple[int | str, ...] = ("",) * len(peers)
        counted = tuple(self._sample(agent, window.get(peer), peer) for peer in peers if rounds)
        tcp = chain(repeat(uncounted, rounds - 1), repeat(counted))
        return zip(report.payload_bytes, report.message_bytes, tcp)  # noqa: B905  # tcp has no end

    def _sample(self, sender: int, report: Report | None, receiver: int) -> int | str:
        """Bytes that the receiver's kernel got since the receiver's previous report, if known."""
        if report is None or sender not in report.receiving:
            return ""
        total, received = self.edges[sender, receiver], Counts(*report.receiving[sender]).received
        before, total.logged = total.logged, received
        return received - before

    def __enter__(self) -> TrafficLog:
        try:
            self._file = self._path.open("x", encoding="ascii")
            self.windows.open()
        except FileExistsError:
            message = f"{self._path} exists already: choose another --out, nothing is overwritten"
            raise RunError(message, BAD_INPUT) from None
        except OSError as error:
            raise RunError(f"cannot write {self._path}: {error.strerror}", BAD_INPUT) from None
        self._file.write("round,sender,receiver,payload,message,zmtp,tcp\n")
        return self

    def __exit__(self, *_error: object) -> None:
        """Write what is known of windows that not all agents have reported."""
        for first in sorted(self._pending):
            self._write(self._pending[first])
        self._file.close()
        self.windows.close()


def _reported(agents: list[int], sizes: tuple[Sizes | None, ...]) -> Iterator[tuple[int, Sizes]]:
    """Agents with a size in this round: one that was stopped has fewer rounds than the others."""
    return ((agent, size) for agent, size in zip(agents, sizes, strict=True) if size)
