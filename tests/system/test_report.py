"""The page that a real run leaves, in a real browser."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from cpgt.results.traffic import ALL_LAYERS
from tests.results.pages import Page
from tests.system.conftest import Commands, summary_of

BROWSER = shutil.which("chromium")
needs_browser = pytest.mark.skipif(
    not BROWSER and "CI" not in os.environ, reason="chromium is not installed"
)


def browse(path: Path, profile: Path, *options: str) -> str:
    """What the browser makes of a page."""
    assert BROWSER, "chromium is not installed"
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    command += ["--disable-background-networking", "--disable-dev-shm-usage", *options]
    done = subprocess.run(
        [*command, path.as_uri()], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


@needs_browser
def test_numbers_in_the_browser_are_those_of_the_files(cpgt: Commands, tmp_path: Path) -> None:
    done = cpgt.run("run", "paper", "--rounds", "400", "--seed", "1", "--out", "run")
    assert done.returncode == 0, done.stderr
    out = tmp_path / "run"
    assert done.stdout.endswith(f"report: {Path('run') / 'report.html'}\n")
    page = Page(browse(out / "report.html", tmp_path / "profile", "--dump-dom"))
    summary = summary_of(out)
    totals = page.rows("bytes-a-round")["this network, in total"]
    assert [int(cell.value or 0) for cell in totals] == [
        summary["bytes"]["total"][layer] for layer in ALL_LAYERS
    ]
    assert len(page.rows("edges")) == 1 + 16
    # the last window is the end of the run
    header, *lines = (out / "windows.csv").read_text().splitlines()
    last = dict(zip(header.split(","), lines[-1].split(","), strict=True))
    assert len(page.tables["windows"]) == 1 + len(lines)
    assert int(last["round"]) == summary["rounds"] == 400
    assert float(last["change"]) == summary["residual"]["change"]
    assert int(last["message"]) == summary["bytes"]["total"]["message"]
    assert float(last["seconds"]) == pytest.approx(summary["seconds"], abs=0.5)
    accounts = page.rows("epsilon-by-agent")
    for agent, account in summary["privacy"]["agents"].items():
        assert float(accounts[agent][0].value or 0) == account["epsilon"]
    joined = [row[2].text for row in page.tables["events"] if "is here" in row[2].text]
    assert len(joined) == 6
    assert page.tables["events"][-1][2].text == "completed"
    assert sum(tag == "svg" for tag, _ in page.elements) == 4
    # on paper
    browse(out / "report.html", tmp_path / "profile", f"--print-to-pdf={tmp_path / 'page.pdf'}")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF-")


def test_a_run_that_fails_leaves_a_page_that_says_why(cpgt: Commands, tmp_path: Path) -> None:
    done = cpgt.run("run", "quadratic", "--set", "algorithm.alpha=100", "--out", "run")
    assert done.returncode == 4
    page = Page((tmp_path / "run" / "report.html").read_text())
    assert "Status: failed." in page.text
    assert "diverged: the state is no longer finite" in page.text
    assert "Linux" not in done.stdout, "a divergence is not the kernel's fault"
    assert "distance" not in done.stdout, "a table without rows"


def test_quiet_prints_the_folder_and_json_the_summary(cpgt: Commands, tmp_path: Path) -> None:
    few = ("run", "paper", "--rounds", "20", "--no-compare", "--out")
    assert cpgt.run(*few, "quiet", "--quiet").stdout == "quiet\n"
    done = cpgt.run(*few, "json", "--json")
    assert done.stdout == cpgt.run("show", "json", "--json").stdout
    assert '"folder": "json"' in done.stdout
    assert (tmp_path / "json" / "report.html").exists()
