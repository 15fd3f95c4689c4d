"""The commands of docs/machines.md, run on three hosts with the addresses of the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system.conftest import Commands, summary_of
from tests.system.hosts import hosts_or_skip
from tests.system.pages import DOCS, MACHINES, Machine, Typist, blocks, options_of

PAGE = DOCS / "machines.md"


def over_ipv6(page: str) -> str:
    return re.sub(r"192\.0\.2\.(\d+)", r"[2001:db8::\1]", page)


@pytest.mark.parametrize("read", [str, over_ipv6], ids=["IPv4", "IPv6"])
def test_the_commands_of_the_page(
    cpgt: Commands, tmp_path: Path, read: Callable[[str], str]
) -> None:
    page = read(PAGE.read_text(encoding="utf-8"))
    with hosts_or_skip(len(MACHINES), network=("192.0.2", "2001:db8:")) as hosts:
        machines = {
            i: Machine(tmp_path / str(i), list(hosts.on(i - 1)), cpgt.mark) for i in MACHINES
        }
        typist = Typist(machines)
        try:
            for block in blocks(page):
                typist.type_in(block)
            assert len(typist.running) == 1 + len(MACHINES)
            typist.finish()
        finally:
            typist.stop()
    summary = summary_of(machines[1].folder / "results")
    assert summary["status"] == "completed"
    assert summary["residual"]["public_result"] == pytest.approx([1.0, -2.0, 3.0, 0.5], abs=1.0)
    kernel = summary["bytes"]["kernel"]
    assert kernel["miscounted"] == kernel["uncheckable"] == []
    for i in MACHINES:
        names = {path.name for path in machines[i].folder.iterdir()}
        results = {"results"} if i == 1 else set()
        assert names == {"keys", "together.toml", "mine.npz", "runs"} | results


def test_every_option_on_the_page_exists() -> None:
    known = options_of(["agent"], ["coordinator"], ["keys", "new"])
    named = set(re.findall(r"(?<![\w-])--[a-z]+[a-z-]*", PAGE.read_text(encoding="utf-8")))
    assert "--advertise" in named
    assert named <= known
