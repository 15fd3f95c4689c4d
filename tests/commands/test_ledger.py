"""`cpgt ledger`: making a ledger, and reading it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cpgt.agent.privacy.ledger import Entry, Ledger, reserve
from cpgt.commands.main import main


@pytest.fixture(autouse=True)
def state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Of three runs: settled, released, unsettled."""
    path = tmp_path / "ward.ledger"
    done = init(path)
    assert (done.exit_code, done.output) == (0, f"{path}: nothing spent of epsilon 3\n")
    reserve(path, entry("first", 0.4)).settle()
    reserve(path, entry("second", 0.4)).release()
    reserve(path, entry("third-" + "x" * 60, 0.3)).close()
    return path


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["ledger", *map(str, arguments)])


def init(path: Path, **changed: str) -> Result:
    budget = {"dataset": "ward [7]", "epsilon": "3", "delta": "1e-5", "adjacency": "record"}
    budget |= changed
    return call("init", path, *(f"--{name}={value}" for name, value in budget.items()))


def entry(run: str, mu: float) -> Entry:
    return Entry(run, "gradient", "record", mu, None, 1e-5, [2, 5], "paper", 60, 20)


def test_a_person_sees_what_was_spent(ledger: Path) -> None:
    done = call(ledger)
    assert done.exit_code == 0
    for words in (
        "ward [7]: record adjacency", "first", "paper, gradient,", "20 refreshes", "with 2 5",
        "settled", "released", "unsettled", "All of it counts as spent",
        "budget  epsilon 3, delta 1e-05", "spent   epsilon 1.993, delta 1e-05",
        "left    one more run of epsilon 2.068, delta 1e-05",
    ):  # fmt: skip
        assert words in done.output
    assert max(map(len, done.output.splitlines())) <= 80


def test_what_is_left_fits(ledger: Path) -> None:
    """mu of 0.4 and 0.3 is 0.5; the two squares and what is left make up the budget's square."""
    from cpgt.agent.privacy.gdp import mu_of

    found = Ledger.open(ledger)
    left = mu_of(found.left, 1e-5)
    assert left**2 + 0.5**2 == pytest.approx(mu_of(3, 1e-5) ** 2)
    reserve(ledger, entry("rest", left * (1 - 1e-9))).close()
    assert Ledger.open(ledger).left < 0.01


def test_a_program_reads_json(ledger: Path) -> None:
    for order in (("--json", ledger), (ledger, "--json")):
        read = json.loads(call(*order).output)
        assert (read["dataset"], read["adjacency"]) == ("ward [7]", "record")
        assert read["budget"] == {"epsilon": 3.0, "delta": 1e-5}
        assert read["spent"]["epsilon"] == pytest.approx(1.993, abs=1e-3)
        assert [run["state"] for run in read["runs"]] == ["settled", "released", "unsettled"]
        assert read["runs"][0]["peers"] == [2, 5]
        assert read["head"]["seq"] == 5


def test_the_head_for_others_to_keep(ledger: Path, tmp_path: Path) -> None:
    head = call(ledger, "--head").output
    assert head == f"{Ledger.open(ledger).head}\n"
    kept = tmp_path / "kept by a peer"
    kept.write_text(head)
    assert call(ledger, "--ledger-head", kept).exit_code == 0
    older = ledger.read_bytes()
    reserve(ledger, entry("later", 0.1)).close()
    kept.write_text(call(ledger, "--head").output)
    ledger.write_bytes(older)
    done = call(ledger, "--ledger-head", kept)
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert "was rolled back" in done.output


def test_an_empty_ledger(tmp_path: Path) -> None:
    init(tmp_path / "new")
    assert "spent   epsilon 0, delta 1e-05" in call(tmp_path / "new").output
    assert "one more run of epsilon 3, delta" in call(tmp_path / "new").output


def test_an_interrupted_append_is_named(ledger: Path) -> None:
    with ledger.open("a") as file:
        file.write('{"seq":')
    assert "An append at the end was interrupted. It was not acknowledged." in call(ledger).output


@pytest.mark.parametrize(
    "changed",
    [{"epsilon": "0"}, {"epsilon": "inf"}, {"delta": "0"}, {"delta": "1"}, {"dataset": ""},
     {"adjacency": "function"}, {"dataset": "two\nlines"}],
)  # fmt: skip
def test_a_budget_that_cannot_be_kept(tmp_path: Path, changed: dict[str, str]) -> None:
    done = init(tmp_path / "ledger", **changed)
    assert done.exit_code == 2
    assert "Traceback" not in done.output
    assert not (tmp_path / "ledger").exists()


def test_mistakes_are_one_line(ledger: Path, tmp_path: Path) -> None:
    mistakes = {
        "there is no ledger": call(tmp_path / "none"),
        "exists already: nothing is overwritten": init(ledger),
        "holds no ledger": call("pyproject.toml"),
    }
    for words, done in mistakes.items():
        assert done.exit_code == 2
        assert words in done.output
        assert done.output.count("\n") == 1


@pytest.mark.parametrize("arguments", [(), ("init",)])
def test_help_ends_without_an_error(arguments: tuple[str, ...]) -> None:
    done = call(*arguments, "--help")
    assert done.exit_code == 0
    assert "Error" not in done.output
