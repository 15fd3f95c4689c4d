"""An audit as a table and a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console

from cpgt.results.formatting import format_number, make_table

if TYPE_CHECKING:
    from cpgt.theory.auditing.audit import Audit
    from cpgt.theory.auditing.gaussian_audit import GaussianAudit

CHANGES = {
    "record": "one record that is replaced",
    "add-remove": "one record that is added or removed",
    "function": "a linear term as long as the sensitivity",
}


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


def show_gaussian_audit(audit: GaussianAudit, console: Console) -> None:
    rows = [
        ("claimed", audit.claim.mu, audit.claim.epsilon, "by the agent's own account"),
        *((f"attack: {a.name}", a.mu, a.epsilon, f"{a.trials:,}") for a in audit.attacks),
        ("audited", audit.bound.value, audit.audited_epsilon, "all attacks together"),
    ]
    heading = f"agent {audit.agent}, {audit.claim.answers} answers in {audit.rounds} rounds"
    headings = (heading, "mu", "epsilon", "agents with each data set")
    cells = ((name, f"{mu:.4g}", f"{epsilon:.4g}", how) for name, mu, epsilon, how in rows)
    console.print(make_table(headings, cells))
    for line in _gaussian_sentences(audit):
        console.print(line, highlight=False, soft_wrap=True)


def _gaussian_sentences(audit: GaussianAudit) -> Iterator[str]:
    (event, likelier, rarer), sign = audit.bound[1:], ">" if audit.bound.event.above else "<="
    yield (
        f"mechanism {audit.claim.mechanism}, {audit.claim.adjacency} adjacency (the problems "
        f"differ by {CHANGES[audit.claim.adjacency]}), delta {audit.claim.delta:g}; bounds hold "
        f"with confidence {100 * audit.confidence:g} %"
    )
    yield "Every adversary knows both problems, all parameters, and the data of all others."
    for attack in audit.attacks:
        yield f"{attack.name}: {attack.adversary}"
    yield (
        f"best test: {event.statistic} {sign} {event.threshold:.4g}, true of {likelier[0]:,} of "
        f"{likelier[1]:,} agents with one data set and {rarer[0]:,} of {rarer[1]:,} with the other"
    )
    if audit.violated:
        yield "[bold red]VIOLATED[/]: more is revealed than the claimed mu allows."
    else:
        ratio = audit.audited_epsilon / audit.claim.epsilon
        yield f"The claim holds: the audited epsilon is {ratio:.2f} of the claimed one."
