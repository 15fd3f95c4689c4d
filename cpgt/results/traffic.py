"""The bytes of a run as they stand in its summary: layer by layer, and what the kernel's counts mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cpgt.coordinator.traffic_log import LAYERS, EdgeTotal, TrafficLog
from cpgt.wire.sizes import publisher_handshake

TCP, LINK = "tcp", "link"  # counted by the kernel: what went through TCP, and that with all headers
ALL_LAYERS = (*LAYERS, TCP, LINK)
HEADINGS = (*LAYERS, TCP, "with headers")


def traffic(traffic_log: TrafficLog, *, completed: bool) -> dict[str, Any]:
    edges = [
        {"sender": sender, "receiver": receiver, **_edge(total)}
        for (sender, receiver), total in traffic_log.edges.items()
    ]
    rounds = max((total.rounds for total in traffic_log.edges.values()), default=0)
    totals = {layer: _sum(edge["total"][layer] for edge in edges) for layer in ALL_LAYERS}
    return {
        "total": totals,
        "per_round": _per_round(totals, rounds),
        "edges": edges,
        "resent": traffic_log.resent,
        "encrypted": traffic_log.curve,
        "reconciled": not traffic_log.unreconciled,
        "kernel": _kernel(traffic_log, completed),
    }


def _kernel(traffic_log: TrafficLog, completed: bool) -> dict[str, Any]:
    connections = [total.connection for total in traffic_log.edges.values()]
    return {
        "handshake": publisher_handshake(curve=traffic_log.curve),
        "segments": _sum(connection.segments for connection in connections),
        "headers": _sum(connection.headers for connection in connections),
        "uncheckable": traffic_log.uncheckable,
        # when a run is cut off, bytes are on the way while the kernel is asked
        "miscounted": traffic_log.miscounted if completed else None,
    }


def _edge(total: EdgeTotal) -> dict[str, Any]:
    connection = total.connection
    totals = {**total.bytes, TCP: connection.carried, LINK: connection.on_the_link}
    ends = {"at_sender": connection.sender, "at_receiver": connection.receiver}
    return {
        "rounds": total.rounds,
        "total": totals,
        "per_round": _per_round(totals, total.rounds),
        "kernel": {end: counts and counts._asdict() for end, counts in ends.items()},
    }


def _per_round(totals: dict[str, int | None], rounds: int) -> dict[str, float | None]:
    return {
        layer: None if size is None else size / max(rounds, 1) for layer, size in totals.items()
    }


def _sum(sizes: Iterable[int | None]) -> int | None:
    """None if one of them is not known: a sum of the others would look like the whole."""
    known = list(sizes)
    return None if None in known else sum(filter(None, known))


def kernel_lines(sizes: dict[str, Any]) -> list[str]:
    """What the kernel's counts mean for a link, in words; or that there are none."""
    if not sizes["edges"]:
        return []
    if sizes["total"][LINK] is None:
        return [
            "tcp: not available, since not every agent's kernel counts bytes (Linux does, from 4.19 on)"
        ]
    return [_link_line(sizes), _reconciliation(sizes["kernel"], len(sizes["edges"]))]


def _link_line(sizes: dict[str, Any]) -> str:
    messages = sum(edge["rounds"] for edge in sizes["edges"])
    segments, headers = sizes["kernel"]["segments"], sizes["kernel"]["headers"]
    share = headers / sizes["total"][LINK]
    return (
        f"on a link: {segments / max(messages, 1):.1f} TCP segments a message, acknowledgements with them; "
        f"headers are {share:.0%} of the bytes"
        + (": they dominate, and no compressor makes them smaller" if share > 0.5 else "")
    )


def _reconciliation(kernel: dict[str, Any], edges: int) -> str:
    """Whether the layers add up."""
    if kernel["miscounted"] is None:
        return "kernel's count: not compared with the frames, since the run was cut off"
    if kernel["miscounted"]:
        names = ", ".join(f"{sender} -> {receiver}" for sender, receiver in kernel["miscounted"])
        return f"kernel's count: DIFFERS from handshake + frames on {names}"
    lost = len(kernel["uncheckable"])
    rest = f"; {lost} cannot be compared, since somebody had to reconnect" if lost else ""
    return (
        f"kernel's count: handshake + frames, to the byte, on {edges - lost} of {edges} edges{rest}"
    )
