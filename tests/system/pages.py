"""Pages whose commands are typed by a test, on hosts with the addresses of the page.

A block of a page says where it is typed, and what becomes of it:

    ```sh machine=2           typed on machine 2; it ends, with exit code 0
    ```sh machine=2 fails     it ends with another exit code
    ```sh machine=2 starts    a process of the run, which goes on while the page is typed
    ```python machine=all     run by Python, on every machine
    ```toml machine=all file=NAME     written to a file
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.system.conftest import MARK

DOCS = Path(__file__).parents[2] / "docs"
MACHINES = (1, 2, 3)
FIRST_ADDRESS = 10  # of machine 1: 192.0.2.10


class Block(NamedTuple):
    language: str
    machines: tuple[int, ...]
    what: str  # "", "fails", "starts", or the name of a file
    text: str


def blocks(page: str) -> list[Block]:
    found = re.findall(
        r"^```(\w+) machine=(\w+)(?: (?:file=)?(\S+))?\n(.*?)^```$", page, re.M | re.S
    )
    return [
        Block(language, MACHINES if where == "all" else (int(where),), what, text)
        for language, where, what, text in found
    ]


class Machine:
    """A host with a separate folder, on which commands of the page are run."""

    def __init__(self, folder: Path, enter: list[str], mark: str) -> None:
        folder.mkdir()
        self.folder, self._enter = folder, enter
        self._environment = {
            **os.environ,
            MARK: mark,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "200",
            "XDG_STATE_HOME": str(folder / ".state"),
        }

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._enter, *command], cwd=self.folder, env=self._environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def run(self, *command: str, fails: bool = False) -> str:
        process = self.start(*command)
        output, _ = process.communicate(timeout=60)
        assert bool(process.returncode) == fails, output
        return output


class Typist:
    """Types pages on machines, and remembers the public keys that were printed."""

    def __init__(self, machines: dict[int, Machine]) -> None:
        self._machines = machines
        self._public: dict[str, str] = {}
        self.running: list[subprocess.Popen[str]] = []
        self.printed: list[str] = []

    def type_in(self, block: Block) -> None:
        text = with_keys(block.text, self._public)
        for number in block.machines:
            machine = self._machines[number]
            if block.what == "starts":
                self.running.append(machine.start("bash", "-c", f"exec {text}"))
            elif block.language == "python":
                self.printed.append(machine.run(sys.executable, "-c", text))
            elif block.language == "sh" and text.startswith("scp "):
                self._copy(machine, text)
            elif block.language == "sh":
                output = machine.run("bash", "-ec", text, fails=block.what == "fails")
                self._public.update(re.findall(r'under .*:  (\w+) = "(.*)"', output))
                self.printed.append(output)
            else:
                (machine.folder / block.what).write_text(text)

    def _copy(self, machine: Machine, text: str) -> None:
        """`scp -r FOLDER ADDRESS:`, which needs accounts that the hosts of a test do not have."""
        for folder, last in re.findall(r"^scp -r (\w+) 192\.0\.2\.(\d+):$", text, re.M):
            other = self._machines[int(last) - FIRST_ADDRESS + 1]
            shutil.copytree(machine.folder / folder, other.folder / folder)

    def finish(self) -> list[str]:
        """Wait for the processes of the run, which all end with exit code 0; their output."""
        outputs = []
        # Agents first: the coordinator would wait for one that failed.
        for process in reversed(self.running):
            output, _ = process.communicate(timeout=60)
            assert process.returncode == 0, output
            outputs.append(output)
        self.running = []
        return outputs[::-1]

    def stop(self) -> None:
        for process in self.running:
            process.kill()
            process.communicate()


def with_keys(text: str, public: dict[str, str]) -> str:
    """Fill in the public keys that `cpgt keys new` has printed."""
    placeholder = r'^(\w+) = "\.\.\."$'
    return re.sub(placeholder, lambda m: f'{m[1]} = "{public[m[1]]}"', text, flags=re.M)


def options_of(*commands: list[str]) -> set[str]:
    """The options that these commands know."""
    known: set[str] = set()
    for command in commands:
        full = [sys.executable, "-m", "cpgt", *command, "--help"]
        known.update(re.findall(r"--[a-z]+[a-z-]*", subprocess.check_output(full, text=True)))
    return known
