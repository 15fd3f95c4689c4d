"""The commands of docs/machines.md, run on three hosts with the addresses of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.system.conftest import MARK, Commands, summary_of
from tests.system.hosts import hosts_or_skip

PAGE = Path(__file__).parents[2] / "docs" / "machines.md"
MACHINES = (1, 2, 3)


class Block(NamedTuple):
    language: str
    machines: tuple[int, ...]
    file: str
    text: str


def blocks(page: str) -> list[Block]:
    found = re.findall(r"^```(\w+) machine=(\w+)(?: file=(\S+))?\n(.*?)^```$", page, re.M | re.S)
    return [
        Block(language, MACHINES if where == "all" else (int(where),), file, text)
        for language, where, file, text in found
    ]


def over_ipv6(page: str) -> str:
    return re.sub(r"192\.0\.2\.(\d+)", r"[2001:db8::\1]", page)


class Machine:
    """A host with a separate folder, on which commands of the page are run."""

    def __init__(self, folder: Path, enter: list[str], mark: str) -> None:
        folder.mkdir()
        self.folder, self._enter = folder, enter
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, MARK: mark, "PATH": path, "COLUMNS": "200"}

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._enter, *command], cwd=self.folder, env=self._environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self, *command: str) -> str:
        process = self.start(*command)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output
        return output


@pytest.mark.parametrize("read", [str, over_ipv6], ids=["IPv4", "IPv6"])
def test_the_commands_of_the_page(
    cpgt: Commands, tmp_path: Path, read: Callable[[str], str]
) -> None:
    page = read(PAGE.read_text(encoding="utf-8"))
    with hosts_or_skip(len(MACHINES), network=("192.0.2", "2001:db8:")) as hosts:
        machines = {
            i: Machine(tmp_path / str(i), list(hosts.on(i - 1)), cpgt.mark) for i in MACHINES
        }
        running = type_in(blocks(page), machines)
        assert len(running) == 1 + len(MACHINES)
        try:
            # Agents first: the coordinator would wait for one that failed.
            for process in reversed(running):
                output, _ = process.communicate(timeout=60)
                assert process.returncode == 0, output
        finally:
            for process in running:
                process.kill()
                process.communicate()
    summary = summary_of(machines[1].folder / "results")
    assert summary["status"] == "completed"
    assert summary["residual"]["public_result"] == pytest.approx([1.0, -2.0, 3.0, 0.5], abs=1.0)
    kernel = summary["bytes"]["kernel"]
    assert kernel["miscounted"] == kernel["uncheckable"] == []
    for i in MACHINES:
        names = {path.name for path in machines[i].folder.iterdir()}
        results = {"results"} if i == 1 else set()
        assert names == {"keys", "together.toml", "mine.npz", "runs"} | results


def type_in(page: list[Block], machines: dict[int, Machine]) -> list[subprocess.Popen[str]]:
    """Run the page block by block. Returns the processes of the run, which do not end at once."""
    public: dict[str, str] = {}
    running = []
    for block in page:
        for machine in map(machines.__getitem__, block.machines):
            if block.file:
                (machine.folder / block.file).write_text(with_keys(block.text, public))
            elif block.language == "python":
                machine.run(sys.executable, "-c", block.text)
            elif block.text.startswith("cpgt keys"):
                output = machine.run("bash", "-ec", block.text)
                public.update(re.findall(r'under .*:  (\w+) = "(.*)"', output))
            else:
                running.append(machine.start("bash", "-c", f"exec {block.text}"))
    return running


def with_keys(text: str, public: dict[str, str]) -> str:
    """Fill in the public keys that `cpgt keys new` has printed."""
    placeholder = r'^(\w+) = "\.\.\."$'
    return re.sub(placeholder, lambda m: f'{m[1]} = "{public[m[1]]}"', text, flags=re.M)


def test_every_option_on_the_page_exists() -> None:
    known: set[str] = set()
    for command in (["agent"], ["coordinator"], ["keys", "new"]):
        full = [sys.executable, "-m", "cpgt", *command, "--help"]
        known.update(re.findall(r"--[a-z]+", subprocess.check_output(full, text=True)))
    named = set(re.findall(r"(?<![\w-])--[a-z]+", PAGE.read_text(encoding="utf-8")))
    assert "--advertise" in named
    assert named <= known
