"""summary.json: the same fields as ever, read back as they were written, and damage named."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from cpgt.configuration.loading import load_network
from cpgt.coordinator.errors import RunError
from cpgt.coordinator.session import Phase, Session
from cpgt.coordinator.traffic_log import TrafficLog
from cpgt.process.exit_codes import BAD_INPUT
from cpgt.results.summary import (
    AgentPrivacy,
    Distances,
    Summary,
    compare,
    read_summary,
    summarise,
    write_summary,
)
from cpgt.results.traffic import ALL_LAYERS
from cpgt.wire.messages import Failed, Finished, Ready, Spent
from tests.coordinator.test_session import DIMENSION, REFERENCE, Run, report

# `cpgt run paper --rounds 50 --observe --seed 1` before the summary had a type; with three edges
EXAMPLE = Path(__file__).parent
FOURTH_TO_SIXTH = tuple(f".privacy.agents.{agent}" for agent in (4, 5, 6))


@pytest.fixture
def example() -> Summary:
    summary = read_summary(EXAMPLE)
    assert summary
    return summary


def summary_of(session: Session, folder: Path) -> Summary:
    """Of three agents in a row; the network's own graph is another, and does not matter."""
    network = load_network("paper")
    with TrafficLog(folder / "bytes.csv", {1: (2,), 2: (1, 3), 3: (2,)}) as log:
        return summarise(network, session, log, [])


def finished(rounds: int, **changes: Any) -> Run:
    run = Run(rounds=rounds, **changes).to(Phase.TALLYING)
    run.now += 2.0
    for agent in run.agents:
        run.receives(agent, report(rounds, 0))
    return run


def key_paths(value: object, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}.{key}"
            yield from key_paths(inner, f"{path}.{key}")


def test_a_summary_of_before_is_written_again_to_the_byte(example: Summary, tmp_path: Path) -> None:
    write_summary(example, tmp_path)
    written = (tmp_path / "summary.json").read_bytes()
    assert written == (EXAMPLE / "summary.json").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


def test_a_new_summary_has_the_fields_of_before(tmp_path: Path) -> None:
    summary = summary_of(finished(10).session, tmp_path)
    observed = Distances(1.0, distance_to_limit=2.0, limit_to_optimum=3.0)
    summary = replace(
        summary,
        residual=replace(summary.residual, observed=observed),
        uncompressed=compare(summary, summary),
    )
    write_summary(summary, tmp_path)
    made, before = (
        json.loads((folder / "summary.json").read_text()) for folder in (tmp_path, EXAMPLE)
    )
    kept, expected = (
        {
            path
            for path in key_paths(tables)
            if not path.startswith((".network.", ".privacy.claims."))
        }
        for tables in (made, before)
    )
    # this run has three agents, the example six
    assert {path for path in expected if not path.startswith(FOURTH_TO_SIXTH)} == kept
    edge, edge_before = made["bytes"]["edges"][0], before["bytes"]["edges"][0]
    edge_before["kernel"] = {"at_sender": None, "at_receiver": None}  # nothing was counted here
    assert list(key_paths(edge)) == list(key_paths(edge_before))
    assert list(made) == list(before), "in the same order"


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    summary = summary_of(finished(10).session, tmp_path)
    write_summary(summary, tmp_path)
    assert read_summary(tmp_path) == summary


def test_a_run_that_went_well(tmp_path: Path) -> None:
    run = finished(10)
    summary = summary_of(run.session, tmp_path)
    assert (summary.status, summary.error, summary.rounds) == ("completed", None, 10)
    assert summary.residual.public_result == [0.0] * DIMENSION
    assert (summary.residual.change, summary.residual.disagreement) == (1.0, 0.0)
    assert summary.residual.observed is UNSET and summary.uncompressed is UNSET
    assert summary.seconds == 0.0 and summary.rounds_per_second is None
    run.session.started, run.session.ended = 1.0, 3.0
    (tmp_path / "bytes.csv").unlink()
    assert summary_of(run.session, tmp_path).rounds_per_second == 5.0


def test_a_run_that_a_budget_ended(tmp_path: Path) -> None:
    run = Run(rounds=10).to(Phase.PREPARING)
    run.receives(2, Spent(0, [0.5], 2.0, 4))
    run = _play_to_the_end(run, 4)
    summary = summary_of(run.session, tmp_path)
    assert (summary.status, summary.rounds) == ("out of budget", 4)
    assert summary.privacy.ended_by == run.session.shortened
    assert summary.privacy.agents[2] == AgentPrivacy(0.5, 2.0)
    assert summary.privacy.agents[1] == AgentPrivacy(None, None)


def test_a_budget_that_was_not_reached_did_not_end_the_run(tmp_path: Path) -> None:
    run = Run().to(Phase.RUNNING)
    run.receives(2, Spent(0, [], 2.0, 40))
    run.receives(1, Failed("diverged", 4, 3))
    summary = summary_of(run.session, tmp_path)
    assert (summary.status, summary.error) == ("failed", "agent 1: diverged")
    assert summary.privacy.ended_by is None
    assert summary.residual.public_result is summary.residual.disagreement is UNSET


def test_a_run_that_was_interrupted(tmp_path: Path) -> None:
    summary = summary_of(Run().to(Phase.DONE).session, tmp_path)
    assert (summary.status, summary.error) == ("interrupted", "interrupted")
    assert summary.bytes.kernel.miscounted is None, "bytes were on the way"


def test_savings_are_given_where_both_are_known(example: Summary) -> None:
    ours = dict.fromkeys(ALL_LAYERS, 2.0) | {"tcp": None, "link": 0.0}
    theirs = dict.fromkeys(ALL_LAYERS, 8.0) | {"zmtp": None}
    compressed, uncompressed = (
        replace(example, bytes=replace(example.bytes, per_round=sizes)) for sizes in (ours, theirs)
    )
    saving = compare(compressed, uncompressed).saving
    assert saving == {"payload": 4.0, "message": 4.0, "zmtp": None, "tcp": None, "link": None}


def test_no_summary(tmp_path: Path) -> None:
    assert read_summary(tmp_path) is None


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"[1, 2]",
        b'{"status": "completed"}',
        b'{"status": "\xff"}',
        b'{"status": 3}',
        b"\x00\x01",
    ],
)
def test_a_damaged_summary_is_named(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "summary.json").write_bytes(damage)
    with pytest.raises(RunError) as refusal:
        read_summary(tmp_path)
    assert f"{tmp_path / 'summary.json'} is not the summary of a run" in str(refusal.value)
    assert refusal.value.exit_code == BAD_INPUT


def test_a_truncated_summary_is_named(tmp_path: Path) -> None:
    whole = (EXAMPLE / "summary.json").read_bytes()
    (tmp_path / "summary.json").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RunError, match="is not the summary of a run"):
        read_summary(tmp_path)


def test_a_number_that_is_not_finite_is_not_written(example: Summary, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_summary(replace(example, seconds=float("nan")), tmp_path)
    assert read_summary(tmp_path) is None


def test_the_record_is_frozen(example: Summary) -> None:
    for record in (example, example.bytes, example.residual, example.privacy, example.bytes.kernel):
        assert isinstance(record, msgspec.Struct)
        with pytest.raises(AttributeError):
            setattr(record, record.__struct_fields__[0], None)


def test_what_the_coordinator_needs_loads_no_code_of_agents() -> None:
    code = (
        "import sys, cpgt.results.summary, cpgt.results.printing, cpgt.runs.display\n"
        "import cpgt.coordinator.server\n"
        "print([m for m in sys.modules if m.startswith(('cpgt.agent', 'scipy', 'networkx'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _play_to_the_end(run: Run, rounds: int) -> Run:
    """From PREPARING, with a grant of that many rounds."""
    for agent in run.agents:
        run.receives(agent, Ready(DIMENSION))
    for agent in run.agents:
        run.receives(agent, report(0, rounds))
    for agent in run.agents:
        run.receives(agent, Finished(rounds, REFERENCE))
    for agent in run.agents:
        run.receives(agent, report(rounds, 0))
    return run
