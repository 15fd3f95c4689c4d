"""The bytes of a run in its summary: for each layer, in total, per round and on each edge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct

from cpgt.coordinator.traffic_log import LAYERS, Edge, EdgeTotal, TrafficLog
from cpgt.wire.sizes import publisher_handshake

TCP, LINK = "tcp", "link"  # counted by the kernel: bytes through TCP, and these with all headers
ALL_LAYERS = (*LAYERS, TCP, LINK)
HEADINGS = (*LAYERS, TCP, "with headers")
Totals: TypeAlias = dict[str, int | None]  # layer -> bytes; None where a kernel does not count
Means: TypeAlias = dict[str, float | None]  # layer -> bytes per round


class EdgeCounts(Struct, frozen=True):
    """wire.kernel.Counts of the two ends of an edge, field by field."""

    at_sender: dict[str, int] | None
    at_receiver: dict[str, int] | None


class EdgeTraffic(Struct, frozen=True):
    sender: int
    receiver: int
    rounds: int
    total: Totals
    per_round: Means
    kernel: EdgeCounts


class KernelTraffic(Struct, frozen=True):
    handshake: int  # bytes, on each edge
    segments: int | None
    headers: int | None  # bytes
    uncheckable: list[Edge]
    miscounted: list[Edge] | None  # None: not compared, because the run was cut off


class Traffic(Struct, frozen=True):
    total: Totals
    per_round: Means
    edges: list[EdgeTraffic]
    resent: int
    encrypted: bool
    reconciled: bool  # senders and receivers counted the same message bytes
    kernel: KernelTraffic


def summarise_traffic(log: TrafficLog, *, completed: bool) -> Traffic:
    edges = [_edge(edge, total) for edge, total in log.edges.items()]
    totals = {layer: _sum(edge.total[layer] for edge in edges) for layer in ALL_LAYERS}
    connections = [total.connection for total in log.edges.values()]
    return Traffic(
        total=totals,
        per_round=_per_round(totals, max((edge.rounds for edge in edges), default=0)),
        edges=edges,
        resent=log.resent,
        encrypted=log.curve,
        reconciled=not log.unreconciled,
        kernel=KernelTraffic(
            handshake=publisher_handshake(curve=log.curve),
            segments=_sum(connection.segments for connection in connections),
            headers=_sum(connection.headers for connection in connections),
            uncheckable=log.uncheckable,
            # when a run is cut off, bytes are on the way while the kernel is asked
            miscounted=log.miscounted if completed else None,
        ),
    )


def _edge(edge: Edge, total: EdgeTotal) -> EdgeTraffic:
    connection = total.connection
    totals = {**total.bytes, TCP: connection.carried, LINK: connection.on_the_link}
    ends = (connection.sender, connection.receiver)
    return EdgeTraffic(
        *edge,
        rounds=total.rounds,
        total=totals,
        per_round=_per_round(totals, total.rounds),
        kernel=EdgeCounts(*(end and end._asdict() for end in ends)),
    )


def _per_round(totals: Mapping[str, int | None], rounds: int) -> Means:
    return {
        layer: None if size is None else size / max(rounds, 1) for layer, size in totals.items()
    }


def _sum(sizes: Iterable[int | None]) -> int | None:
    """None if one of them is unknown: a sum of the others would look like the whole."""
    known = list(sizes)
    return None if None in known else sum(filter(None, known))
