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
# With a service named, every version prints its log to the last line and returns its exit code.
# Without one, compose 1 stops as soon as any container ends, and early versions of compose 2 do not
# print the last lines.
UP = ("up", "--exit-code-from", "coordinator", "coordinator")


def need(command: list[str], what: str) -> None:
    """Skip the test if the command fails, with the reason. In CI the test fails instead."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30)
        reason = answer.stderr.strip().splitlines()[-1] if answer.returncode else ""
    except FileNotFoundError:
        reason = f"there is no command {command[0]}"
    if reason and os.environ.get("CI"):
        pytest.fail(f"no {what} in CI: {reason}")
    elif reason:
        pytest.skip(f"no {what}: {reason}")


def fresh_clone(folder: Path) -> Path:
    """Copy the files of a clone, including uncommitted changes.

    CPGT_WHEELHOUSE names a folder of wheels, for machines without a package index."""
    clone = folder / "clone"
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.check_output(command, cwd=REPOSITORY, text=True)
    for name in filter(None, names.split("\0")):
        if (REPOSITORY / name).is_file() or (REPOSITORY / name).is_symlink():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, clone / name, follow_symlinks=False)
    if wheels := os.environ.get("CPGT_WHEELHOUSE"):
        shutil.copytree(wheels, clone / "wheelhouse")
    return clone


class Compose:
    def __init__(self, version: str, clone: Path) -> None:
        self.version, self.clone = version, clone
        self.project = f"cpgt-test-{os.getpid()}"
        # Files of an ordinary user must stay with that user, who has to delete them.
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
        """The exit code and the output."""
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
        """Service -> its container, as `docker inspect` describes it."""
        label = f"label=com.docker.compose.project={self.project}"
        names = _docker("ps", "--all", "--quiet", "--filter", label).split()
        found: list[dict[str, Any]] = json.loads(_docker("inspect", *names)) if names else []
        return {one["Config"]["Labels"]["com.docker.compose.service"]: one for one in found}

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
    return subprocess.check_output(["docker", *arguments], text=True, timeout=60)
