"""An audit as a table and a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console

from cpgt.results.formatting import format_number, make_table

if TYPE_CHECKING:
    from cpgt.theory.auditing.audit import Audit


def show_audit(audit: Audit, console: Console) -> None:
    certain = f"holds with confidence {100 * audit.confidence:g} %"
    rows = [
        ("claimed, sound", audit.claimed.sound, "must not be exceeded"),
        ("claimed by the paper", audit.claimed.paper, "Theorem 2's value, for comparison"),
        ("exact loss of the pair", audit.exact, "on the worst x^a, y^a (quadratic f)"),
        ("largest loss seen", audit.largest_seen, "in the runs (uncompressed)"),
        ("audited lower bound", audit.bound.value, certain),
    ]
    cells = ((name, format_number(value, ".5g"), meaning) for name, value, meaning in rows)
    heading = f"agent {audit.agent}, {audit.rounds} rounds"
    console.print(make_table((heading, "epsilon", "what it is"), cells))
    for line in _sentences(audit):
        console.print(line, highlight=False, soft_wrap=True)


def _sentences(audit: Audit) -> Iterator[str]:
    event, likelier, rarer = audit.bound.event, audit.bound.likelier, audit.bound.rarer
    yield (
        f"best test: {event.statistic} {'>' if event.above else '<='} {event.threshold:.4g}, "
        f"true in {likelier[0]} of {likelier[1]} runs of one problem "
        f"and in {rarer[0]} of {rarer[1]} of the other"
    )
    if audit.violated:
        yield "[bold red]VIOLATED[/]: the loss exceeds the claim."
    elif math.isinf(audit.claimed.sound):
        yield "[bold red]NOT PRIVATE[/]: without noise no finite epsilon is claimed."
    else:
        yield "The claim holds: no loss that was found exceeds it."
    if audit.paper_exceeded:
        yield "The paper's epsilon does not hold: the exact loss of this pair is larger."
