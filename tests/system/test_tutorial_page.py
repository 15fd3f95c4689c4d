"""The commands of docs/tutorial.md, run on three hosts with the addresses of the page."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from cpgt.models.model_file import load_model
from tests.system.conftest import Commands, summary_of
from tests.system.hosts import hosts_or_skip
from tests.system.pages import DOCS, MACHINES, Block, Machine, Typist, blocks, options_of

PAGE = DOCS / "tutorial.md"


def test_the_commands_of_the_page(cpgt: Commands, tmp_path: Path) -> None:
    page = blocks(PAGE.read_text(encoding="utf-8"))
    started = max(i for i, block in enumerate(page) if block.what == "starts") + 1
    with hosts_or_skip(len(MACHINES), network=("192.0.2", "2001:db8:")) as hosts:
        machines = {
            i: Machine(tmp_path / str(i), list(hosts.on(i - 1)), cpgt.mark) for i in MACHINES
        }
        typist = Typist(machines)
        try:
            _type(typist, page[:started])
            _, *agents = typist.finish()
            _type(typist, page[started:])
        finally:
            typist.stop()
    for i, printed in zip(MACHINES, agents, strict=True):
        assert f"agent {i}: model: mine/model.json" in printed
        assert "epsilon 3, delta 1e-05, if one record of an agent is replaced" in printed
    printed = "".join(typist.printed)
    assert float(re.findall(r"accuracy +│ ([\d.]+)", printed)[0]) > 0.85
    summary = summary_of(machines[1].folder / "results")
    assert summary["status"] == "completed"
    assert summary["not_private"] == []
    _check_files({i: machine.folder for i, machine in machines.items()})


def _type(typist: Typist, page: list[Block]) -> None:
    for block in page:
        typist.type_in(block)


def _check_files(folders: dict[int, Path]) -> None:
    digests = {load_model(folder / "mine").table_digest for folder in folders.values()}
    assert len(digests) == 1
    with (folders[2] / "predicted.csv").open(newline="") as file:
        predicted = list(csv.DictReader(file))
    with (folders[2] / "records/held-out.csv").open(newline="") as file:
        wanted = list(csv.DictReader(file))
    right = [a["diagnosis"] == b["diagnosis"] for a, b in zip(predicted, wanted, strict=True)]
    assert sum(right) > 0.85 * len(right)
    for i, folder in folders.items():
        ledger = (folder / f"records/{i}/data.csv.ledger").read_text()
        assert ledger.count("\n") >= 3  # its head line, a reservation, and that it is settled


def test_every_option_on_the_page_exists() -> None:
    commands = ("agent", "check", "coordinator", "data", "evaluate", "init", "plan", "predict")
    known = options_of(*([name] for name in commands), ["keys", "new"], ["ledger", "init"])
    named = set(re.findall(r"(?<![\w-])--[a-z]+[a-z-]*", PAGE.read_text(encoding="utf-8")))
    assert "--sample" in named
    assert named <= known
