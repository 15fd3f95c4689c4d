"""docs/protocol.md says what the code does: messages, fields, phases, version, exit codes."""

from __future__ import annotations

import re
from pathlib import Path

from cpgt.agent.lifecycle import TABLE as AGENT_TABLE
from cpgt.agent.lifecycle import Action, Trigger
from cpgt.coordinator.session import TABLE as COORDINATOR_TABLE
from cpgt.process import exit_codes
from cpgt.topologies.topology import MAX_AGENTS as AGENTS_IN_A_FILE
from cpgt.wire.messages import (
    MAX_AGENTS,
    MAX_DEPTH,
    MAX_ENDPOINT,
    VERSION,
    FromAgent,
    FromCoordinator,
)

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")
TRIGGERS = {
    "Plan": Trigger.PLANNED,
    "Grant": Trigger.GRANTED,
    "Tally": Trigger.TALLY_ASKED,
    "Stop": Trigger.STOPPED,
    "all neighbours have subscribed": Trigger.CONNECTED,
    "a window is played": Trigger.WINDOW_PLAYED,
    "all granted rounds are played": Trigger.GRANT_USED_UP,
    "all rounds are played, and the grant was the last": Trigger.COMPLETED,
}
SENT = {"Ready": Action.SEND_READY, "Report": Action.SEND_REPORT, "Finished": Action.SEND_FINISHED}


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table after a heading, or after another table's first line."""
    table = PAGE.split(heading, 1)[1].split("\n| ", 1)[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]


def fields_of(heading: str) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for message, field, _type, _meaning in rows(heading):
        if message:
            found.append((message, []))
        found[-1][1].extend([field] if field else [])
    return found


def test_messages_and_fields() -> None:
    for heading, union in (
        ("### Messages of an agent", FromAgent),
        ("### Messages of the coordinator", FromCoordinator),
    ):
        kinds = union.__args__
        expected = {kind.__name__: list(kind.__struct_fields__) for kind in kinds}
        assert dict(fields_of(heading)) == expected


def test_the_phases_of_an_agent() -> None:
    found = {}
    for phase, trigger, after, sent in rows("### The agent"):
        actions = [SENT[word] for word in sent.split(", ") if word]
        found[phase, TRIGGERS[trigger].name] = (after, actions)
    expected = {
        (phase.name, trigger.name): (after.name, [a for a in actions if a is not Action.PREPARE])
        for (phase, trigger), (after, actions) in AGENT_TABLE.items()
    }
    assert found == expected


def test_what_the_coordinator_accepts() -> None:
    accepted: dict[str, list[str]] = {}
    for phase, kind in COORDINATOR_TABLE:
        accepted.setdefault(phase.name, []).append(kind.__name__)
    page = {phase: names.split(", ") for phase, names in rows("to DONE.\n")}
    assert page == {phase: sorted(names) for phase, names in accepted.items()}


def test_numbers() -> None:
    assert f"Protocol version: {VERSION}." in PAGE
    codes = {value for name, value in vars(exit_codes).items() if name.isupper()}
    assert {int(code) for code, _ in rows("## Errors")} == {0, *codes}
    limits = dict(rows("## Limits"))
    assert limits["endpoint"] == f"{MAX_ENDPOINT} characters"
    assert limits["nesting of a plan's parameters"] == f"{MAX_DEPTH} arrays and maps"
    agents = limits["agents in a message; agents in a network file"]
    assert agents == f"{MAX_AGENTS:,}; {AGENTS_IN_A_FILE:,}"


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (Path(__file__).parents[2] / "docs" / target).exists()
