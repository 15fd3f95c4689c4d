"""`docker compose` as a user types it, in a fresh clone, on a real engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
AGENTS = range(1, 7)
VERSIONS = {"1": ["docker-compose"], "2": ["docker", "compose"]}
# Asked for one service, every version shows it to its last line and returns its exit code. Without the name
# compose 1 gives up as soon as any container has ended, and early versions of 2 show nothing of the end.
UP = ("up", "--exit-code-from", "coordinator", "coordinator")


def need(command: list[str], what: str) -> None:
    """Skip where it does not answer, and say what is missing; where containers must be tested, fail."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30)
        reason = answer.stderr.strip().splitlines()[-1] if answer.returncode else ""
    except FileNotFoundError:
        reason = f"there is no command {command[0]}"
    if reason and os.environ.get("CI"):
        pytest.fail(f"{what}, which this run must have, does not answer: {reason}")
    elif reason:
        pytest.skip(f"no {what}: {reason}")


def fresh_clone(folder: Path) -> Path:
    """What a clone would hold, with changes that are not committed; and wheels, where there is no index."""
    clone = folder / "clone"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(
        listed, cwd=REPOSITORY, capture_output=True, check=True, text=True
    ).stdout
    for name in filter(None, names.split("\0")):
        if (REPOSITORY / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, clone / name)
    if wheels := os.environ.get("CPGT_WHEELHOUSE"):
        shutil.copytree(wheels, clone / "wheelhouse")
    return clone


class Compose:
    def __init__(self, version: str, clone: Path) -> None:
        self.version, self.clone = version, clone
        self.project = f"cpgt-test-{os.getpid()}"
        # root may leave everything to the ordinary owner; others keep what they must be able to delete
        owner = "1000:1000" if os.getuid() == 0 else f"{os.getuid()}:{os.getgid()}"
        self._environment = {**os.environ, "COMPOSE_PROJECT_NAME": self.project, "OWNER": owner}

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*VERSIONS[self.version], *arguments],
            cwd=self.clone,
            env={**self._environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, **variables: str) -> tuple[int, str]:
        """The exit code, and all that was printed."""
        process = self.start(*arguments, **variables)
        try:
            printed, _ = process.communicate(timeout=240)
        finally:
            process.kill()
        return process.returncode, printed

    def up(self, **variables: str) -> tuple[int, str]:
        return self.run(*UP, **variables)

    def down(self) -> None:
        self.run("down", "--timeout", "2")

    def logs(self, service: str) -> str:
        return self.run("logs", "--no-color", service)[1]

    def containers(self) -> dict[str, dict[str, Any]]:
        """What the engine knows of each service's container."""
        label = f"label=com.docker.compose.project={self.project}"
        names = _docker("ps", "--all", "--quiet", "--filter", label).split()
        found: list[dict[str, Any]] = json.loads(_docker("inspect", *names)) if names else []
        return {of["Config"]["Labels"]["com.docker.compose.service"]: of for of in found}

    def kill(self, service: str) -> None:
        _docker("kill", self.containers()[service]["Id"])

    def inside(self, service: str, script: str) -> list[str]:
        """The lines that a shell script prints in a new container of that service."""
        shell = ("run", "--rm", "--no-deps", "-T", "--entrypoint", "sh")
        code, printed = self.run(*shell, service, "-c", script)
        assert code == 0, printed
        return printed.splitlines()

    def network(self) -> dict[str, Any]:
        found: list[dict[str, Any]] = json.loads(
            _docker("network", "inspect", f"{self.project}_parties")
        )
        return found[0]

    def results(self) -> set[Path]:
        runs = self.clone / "runs"
        return set(runs.iterdir()) if runs.exists() else set()


def _docker(*arguments: str) -> str:
    done = subprocess.run(
        ["docker", *arguments], capture_output=True, check=True, text=True, timeout=60
    )
    return done.stdout
