"""What a person reads at the end of a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from rich.console import Console

from cpgt.results.printing import _measured_in, print_summary
from cpgt.results.summary import AgentPrivacy, Distances, Residual, Summary, read_summary


@pytest.fixture
def example() -> Summary:
    summary = read_summary(Path(__file__).parent)
    assert summary
    return summary


def printed(summary: Summary, *, width: int = 200, edges: bool = False) -> str:
    console = Console(width=width)
    with console.capture() as captured:
        print_summary(summary, Path("results"), console, edges=edges)
    return captured.get()


def cells(text: str, start: str) -> list[str]:
    """Of the first row that starts like this."""
    row = next(line for line in text.splitlines() if line.startswith(f"│ {start}"))
    return [cell.strip() for cell in row.strip("│").split("│")]


def test_a_whole_summary(example: Summary) -> None:
    text = printed(example)
    assert "CPGT-C2-1: 6 agents, d = 10, 50 rounds, 187 rounds/s\n" in text
    assert cells(text, "agents to their limit")[1] == "8.53e+03"
    assert cells(text, "limit to the optimum")[1] == "1.32e+04"
    assert cells(text, "agents to the optimum")[1] == "5.58e+03"
    assert "agents to their mean" not in text
    assert cells(text, "last public message")[1] == "375"
    assert cells(text, "public disagreement")[1] == "1.51e+03"
    assert cells(text, "this network")[1:] == ["256", "288", "320", "349", "1,374"]
    assert cells(text, "uncompressed (measured, 50 rounds)")[1:3] == ["2,576", "2,608"]
    assert cells(text, "saving")[1] == "10.06 x"
    assert (
        "privacy: epsilon 0.0572581 spent by agent 2, highest of the 6 agents that report it "
        "(function adjacency, sensitivity 1.0, rounding not counted)\n"
    ) in text
    assert text.count("NOT PRIVATE: ") == 2
    assert text.endswith("files: results\n")


def test_a_run_that_failed_before_its_first_round(example: Summary) -> None:
    edges = [replace(edge, rounds=0) for edge in example.bytes.edges]
    text = printed(
        replace(
            example,
            status="failed",
            dimension=None,
            rounds=0,
            rounds_per_second=None,
            residual=Residual(None),
            bytes=replace(example.bytes, edges=edges),
            uncompressed=UNSET,
        )
    )
    assert "CPGT-C2-1: 6 agents, 0 rounds (failed)\n" in text
    assert "│" not in text
    assert "tcp" not in text


def test_a_run_that_was_cut_off_does_not_blame_the_kernel(example: Summary) -> None:
    unknown = {"tcp": None, "link": None}
    kernel = replace(example.bytes.kernel, miscounted=None, segments=None, headers=None)
    traffic = replace(
        example.bytes,
        kernel=kernel,
        total=example.bytes.total | unknown,
        per_round=example.bytes.per_round | unknown,
    )
    text = printed(
        replace(example, bytes=traffic, residual=Residual(None), status="failed", error="diverged")
    )
    assert "distance" not in text
    assert "tcp: not known, because not every agent reported before the run was cut off" in text
    assert "Linux" not in text


def test_the_bytes_of_each_edge(example: Summary) -> None:
    assert "1 -> 2" not in printed(example)
    text = printed(example, edges=True)
    edge = example.bytes.edges[0]
    assert cells(text, "1 -> 2")[1:3] == [
        f"{edge.per_round['payload']:,.1f}", f"{edge.per_round['message']:,.1f}"
    ]  # fmt: skip


def test_at_80_columns_no_number_is_cut(example: Summary) -> None:
    large = dict.fromkeys(example.bytes.per_round, 12345678.9)
    traffic = replace(example.bytes, per_round=large)
    text = printed(replace(example, bytes=traffic), width=80)
    assert text.count("12,345,679") == 5
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_names_are_not_markup(example: Summary) -> None:
    network = example.network | {"name": "[bold]a[/bold]"}
    text = printed(replace(example, network=network, not_private=["[red]because[/red]"]))
    assert "[bold]a[/bold]: 6 agents" in text
    assert "NOT PRIVATE: [red]because[/red]" in text


def test_where_no_kernel_counts_there_are_dashes(example: Summary) -> None:
    unknown = {"tcp": None, "link": None}
    ours, theirs = example.bytes, example.uncompressed
    assert theirs
    edges = [replace(edge, per_round=edge.per_round | unknown) for edge in ours.edges]
    ours = replace(
        ours, edges=edges, total=ours.total | unknown, per_round=ours.per_round | unknown
    )
    theirs = replace(theirs, saving=theirs.saving | unknown)
    text = printed(replace(example, bytes=ours, uncompressed=theirs))
    assert cells(text, "this network")[-3:] == ["320", "-", "-"]
    assert cells(text, "saving")[-3:] == ["8.25 x", "-", "-"]
    assert "tcp: not available" in text


def test_distances_that_are_not_finite_or_do_not_apply(example: Summary) -> None:
    residual = Residual(None, observed=Distances(None, distance_to_mean=0.25))
    text = printed(replace(example, residual=residual))
    assert cells(text, "agents to the optimum")[1] == "not finite"
    assert cells(text, "agents to their mean")[1] == "0.25"
    for absent in ("their limit", "limit to", "last public message", "public disagreement"):
        assert absent not in text


def test_without_an_uncompressed_twin(example: Summary) -> None:
    text = printed(replace(example, uncompressed=UNSET))
    assert cells(text, "this network")[1:] == ["256", "288", "320", "349", "1,374"]
    assert "saving" not in text


def test_budgets_and_agents_that_do_not_report(example: Summary) -> None:
    agents = {1: AgentPrivacy(None, None), 2: AgentPrivacy(0.5, 2.0)}
    text = printed(
        replace(example, privacy=replace(example.privacy, agents=agents, ended_by="round 9 ..."))
    )
    assert "the run ended early: round 9 ...\n" in text
    assert (
        "privacy: epsilon 0.5 spent by agent 2, the only agent that reports it "
        "(by its owner's claims, rounding counted)\n"
    ) in text
    silent = replace(example.privacy, agents={1: AgentPrivacy(None, None)})
    text = printed(replace(example, privacy=silent))
    assert "privacy: epsilon" not in text
    assert "no stated privacy: no agent reports an epsilon\n" in text


def test_what_epsilon_was_measured_in() -> None:
    network = {"sensitivity": 0.5}
    assert (
        _measured_in(network, None) == "function adjacency, sensitivity 0.5, rounding not counted"
    )
    assert _measured_in(network, 2.0) == "by its owner's claims, rounding counted"
    agreed = {**network, "epsilon": 2.0, "magnitude": 8.0, "adjacency": "record"}
    assert _measured_in(agreed, 2.0) == "record adjacency, sensitivity 0.5, |x|, |y| <= 8"
