"""report.html: its numbers are those of the files, and nothing in a file becomes an element."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from cpgt.models.model_file import write_model
from cpgt.results.report import leave_report
from cpgt.results.report.graph import edge_bytes
from cpgt.results.report.page import write_comparison, write_report
from cpgt.results.report.record import POINTS, read_record
from cpgt.results.traffic import ALL_LAYERS
from tests.models.examples import model_for, schema_for
from tests.results.pages import Page

WINDOWS = """round,seconds,change,resent,payload,message,zmtp,tcp,link
20,0.5,1500.25,0,5120,5760,6400,7000,27480
40,1.25,700.5,64,10240,11520,12800,13952,54960
50,1.5,375.0,0,12800,14400,16000,17440,68700
"""
EPSILON = "round,agent,epsilon\n0,2,0.03\n1,2,0.057\n0,5,0.02\n1,5,0.043\n"
EVENTS = """time,event
2026-01-02T03:04:05.000+00:00,agent 1 is here (tcp://127.0.0.1:1)
2026-01-02T03:04:06.500+00:00,"waiting for agents 3, 5 (for 7 s), round 12"
2026-01-02T03:04:09.000+00:00,completed
"""
HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(2)>\"' $x$ --> &amp;"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(Path(__file__).parent / "summary.json", folder)
    (folder / "windows.csv").write_text(WINDOWS)
    (folder / "epsilon.csv").write_text(EPSILON)
    (folder / "events.csv").write_text(EVENTS)
    (folder / "network.toml").write_text('name = "CPGT-C2-1"\nrounds = 50\n')
    return folder


def summary_of(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "summary.json").read_text())
    return found


def change_summary(run: Path, **changes: Any) -> None:
    (run / "summary.json").write_text(json.dumps(summary_of(run) | changes))


def page_of(run: Path) -> Page:
    return Page(write_report(run).read_text())


def test_the_numbers_are_those_of_the_files(run: Path) -> None:
    page, summary = page_of(run), summary_of(run)
    sizes, twin = summary["bytes"], summary["uncompressed"]
    rows = page.rows("bytes-a-round")
    for name, expected in (
        ("this network", sizes["per_round"]),
        ("uncompressed (measured, 50 rounds)", twin["per_round"]),
        ("saving, times", twin["saving"]),
        ("this network, in total", sizes["total"]),
    ):
        shown = [float(cell.value or "nan") for cell in rows[name]]
        assert shown == [expected[layer] for layer in ALL_LAYERS], name
    assert rows["this network, in total"][0].text == f"{sizes['total']['payload']:,}"
    edges = page.rows("edges")
    for edge in sizes["edges"]:
        rounds, *totals = edges[f"{edge['sender']} → {edge['receiver']}"]
        assert int(rounds.value or 0) == edge["rounds"]
        assert [int(cell.value or 0) for cell in totals] == [edge["total"][a] for a in ALL_LAYERS]
    residual = summary["residual"]
    distances = page.rows("distances")
    assert float(distances["last public message"][0].value or 0) == residual["change"]
    assert distances["last public message"][0].text == "375"
    assert float(distances["public disagreement"][0].value or 0) == residual["disagreement"]
    accounts = page.rows("epsilon-by-agent")
    for agent, account in summary["privacy"]["agents"].items():
        assert float(accounts[agent][0].value or 0) == account["epsilon"]
    assert f"50 rounds in {summary['seconds']:.2f} s" in page.text


def test_every_window_and_event_is_there(run: Path) -> None:
    page = page_of(run)
    header, *rows = page.tables["windows"]
    assert [cell.text for cell in header] == WINDOWS.splitlines()[0].split(",")
    shown = [[float(cell.value or "nan") for cell in row] for row in rows]
    assert shown == [[float(v) for v in line.split(",")] for line in WINDOWS.splitlines()[1:]]
    assert "64 bytes were sent again in the window that ended in round 40" in page.text
    events = [[cell.text for cell in row] for row in page.tables["events"][1:]]
    assert events[1] == ["03:04:06.500", "1.500", "waiting for agents 3, 5 (for 7 s), round 12"]
    assert "A square marks an agent that the run waited for." in page.text
    for reason in summary_of(run)["not_private"]:
        assert f"NOT PRIVATE: {reason}" in page.text


def test_edges_of_the_graph_carry_both_directions(run: Path) -> None:
    traffic = summary_of(run)["bytes"]
    there = next(e for e in traffic["edges"] if (e["sender"], e["receiver"]) == (1, 4))
    back = {**there, "sender": 4, "receiver": 1, "per_round": there["per_round"] | {"tcp": 100.0}}
    change_summary(run, bytes=traffic | {"edges": [*traffic["edges"], back]})
    totals = edge_bytes(read_record(run))
    assert totals[1, 4] == there["per_round"]["tcp"] + 100.0
    assert totals[1, 2] == there["per_round"]["tcp"]
    title = f"1 - 4: {totals[1, 4]:,.1f} bytes a round, both directions"
    assert title in page_of(run).text


def test_nothing_in_a_file_becomes_an_element(run: Path) -> None:
    (run / "events.csv").write_text(f'time,event\n2026-01-02T03:04:05+00:00,"{HOSTILE[:20]}"\n')
    plain = [tag for tag, _ in page_of(run).elements]
    network = summary_of(run)["network"] | {"name": HOSTILE}
    change_summary(
        run, network=network, not_private=[HOSTILE] * 2, versions={HOSTILE: HOSTILE}, status=HOSTILE
    )
    (run / "network.toml").write_text(HOSTILE)
    (run / "events.csv").write_text(
        f'time,event\n2026-01-02T03:04:05+00:00,"{HOSTILE.replace(chr(34), "")}"\n'
    )
    page = page_of(run)
    assert [tag for tag, _ in page.elements] == plain
    assert "script" not in plain
    assert not any(name.startswith("on") for _, given in page.elements for name in given)
    assert page.text.count(HOSTILE) >= 5
    columns = [{"name": HOSTILE, "kind": "category", "categories": ["a", "b"]}]
    model = model_for("logistic", schema=schema_for("logistic", columns=columns))
    write_model(replace(model, vector=HOSTILE), run)
    assert {tag for tag, _ in page_of(run).elements} == set(plain)
    other = run.with_name("<b>$bold$")
    shutil.copytree(run, other)
    write_comparison([run, other], run / "comparison.html")
    page = Page((run / "comparison.html").read_text())
    assert not {"script", "img", "b"} & {tag for tag, _ in page.elements}
    assert "<b>$bold$" in page.text
    assert HOSTILE in page.text


def test_the_model_and_its_quality(run: Path) -> None:
    write_model(model_for("softmax"), run)
    figures: dict[str, Any] = {"task": "classification", "records": 1234, "left_out": 0}
    ours = {**figures, "metrics": {"accuracy": 0.75, "auc": None}, "calibration": []}
    alone = {**figures, "metrics": {"accuracy": 0.5, "auc": 0.625}, "calibration": []}
    change_summary(run, test=ours, baselines={"each alone, none": [alone, ours]})
    page = page_of(run)
    assert "it promises epsilon 3, delta 1e-05, if one record of an agent is replaced" in page.text
    coefficients = page.rows("coefficients")
    assert [coefficients[f"{c}: age"][0].value for c in ("I", "II", "III")] == ["0.1", "0.5", "0.9"]
    quality = page.rows("quality")
    assert [cell.text for cell in quality["all together"]] == ["0.75", "-"]
    assert quality["each alone, privacy: none (1)"][1].value == "0.625"
    assert "On 1,234 test records" in page.text
    assert "NOT PRIVATE: the baselines under Model look at all records" in page.text
    assert "the privacy promise does not cover these figures" in page.text


def test_a_model_that_cannot_be_read_is_one_line(run: Path) -> None:
    (run / "model.json").write_text("{}")
    assert leave_report(run).startswith(f"report: not made: {run / 'model.json'}: not a model")


def test_the_page_loads_nothing(run: Path) -> None:
    page = page_of(run)
    links = [
        value
        for _, given in page.elements
        for name, value in given.items()
        if name in ("src", "href", "xlink:href", "srcset") and not (value or "").startswith("#")
    ]
    assert links == []
    (policy,) = [g["content"] for t, g in page.elements if g.get("http-equiv")]
    assert policy and policy.startswith("default-src 'none'")


def test_ids_are_unique(run: Path) -> None:
    ids = [given["id"] for _, given in page_of(run).elements if "id" in given]
    assert len(ids) == len(set(ids))


def test_a_run_that_failed_before_its_first_round(run: Path) -> None:
    for name in ("windows.csv", "epsilon.csv", "events.csv"):
        (run / name).unlink()
    empty = {"change": None}
    change_summary(run, status="failed", error="agent 3 left", rounds=0, residual=empty)
    page = page_of(run)
    assert "agent 3 left" in page.text
    assert {"distances", "windows", "bytes-a-round", "events"}.isdisjoint(page.tables)


def test_without_the_kernels_counts_there_are_dashes(run: Path) -> None:
    summary = summary_of(run)
    for sizes in (summary["bytes"], *summary["bytes"]["edges"]):
        for kind in ("total", "per_round"):
            sizes[kind] |= {"tcp": None, "link": None}
    (run / "summary.json").write_text(json.dumps(summary))
    lines = [[*line.split(",")[:-2], "", ""] for line in WINDOWS.splitlines()[1:]]
    header = WINDOWS.splitlines()[0]
    (run / "windows.csv").write_text("\n".join([header, *map(",".join, lines)]) + "\n")
    page = page_of(run)
    assert [cell.text for cell in page.rows("bytes-a-round")["this network"][-2:]] == ["-", "-"]
    assert "as ZMTP frames" in page.text


def test_long_runs_are_thinned(run: Path) -> None:
    rows = [f"{k},{k / 10},{1 / (k + 1)},0,1,1,1,1,1" for k in range(5000)]
    (run / "windows.csv").write_text("\n".join([WINDOWS.splitlines()[0], *rows]) + "\n")
    rounds = read_record(run).windows["round"]
    assert len(rounds) == POINTS
    assert (rounds[0], rounds[-1]) == (0, 4999)


def test_the_disagreement_of_observed_states(run: Path) -> None:
    assert read_record(run).disagreement is None
    for agent in range(1, 7):
        folder = run / "agents" / str(agent)
        folder.mkdir(parents=True)
        np.savez(folder / "trace.npz", x=np.full((4, 2), float(agent)))
    found = read_record(run).disagreement
    assert found is not None
    assert found[0].tolist() == [0, 1, 2, 3]
    assert found[1] == pytest.approx([np.sqrt(2 * 17.5)] * 4)


def test_runs_are_compared(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(run, other)
    network = summary_of(run)["network"]
    compressor = network["compressor"] | {"bits": 7}
    change_summary(other, network=network | {"compressor": compressor}, seconds=12.5)
    write_comparison([run, other], tmp_path / "page.html")
    page = Page((tmp_path / "page.html").read_text())
    assert page.rows("runs")["other"][3].value == "12.5"
    assert [cell.text for cell in page.rows("differences")["compressor.bits"]] == ["2", "7"]
    assert len(page.tables["differences"]) == 2
    totals = page.rows("bytes-in-total")["run"]
    expected = summary_of(run)["bytes"]["total"]
    assert [int(cell.value or 0) for cell in totals] == [expected[layer] for layer in ALL_LAYERS]


@pytest.mark.parametrize("damage", ["round,seconds\n1,x\n", "round,seconds\n1\n", "\xff\n1"])
def test_a_failure_is_one_line(run: Path, damage: str) -> None:
    (run / "windows.csv").write_bytes(damage.encode("latin-1"))
    line = leave_report(run)
    assert line.startswith(f"report: not made: {run / 'windows.csv'} cannot be read: ")
    assert "\n" not in line
    assert not (run / "report.html").exists()


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_without_the_extra_a_line_names_it(
    run: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    loaded = [name for name in sys.modules if name.startswith(("cpgt.results.report.", module))]
    for name in loaded:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    line = leave_report(run)
    assert line.startswith(f"report: not made, because {module} is not installed: pip install")
