"""What a ledger counts, and that no crash makes it forget what it acknowledged."""

from __future__ import annotations

import dataclasses
import itertools
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from scipy.special import log_ndtr
from scipy.stats import binom, norm

from cpgt.agent.errors import AgentError, BudgetError, LedgerError
from cpgt.agent.privacy.gdp import epsilon_of, mu_of
from cpgt.agent.privacy.ledger import (
    Entry,
    Ledger,
    Reservation,
    fits,
    init_ledger,
    mu_of_pure,
    reserve,
    resume,
    total_epsilon,
)

from .ledgers import DELTA, EPSILON, Crash, disk, gaussian, new_ledger, pure

LARGEST = mu_of(EPSILON, DELTA)


def counted(path: Path, head: Path) -> list[str]:
    return [entry.run for entry in Ledger.open(path, head).entries]


def test_a_run_of_the_whole_budget_fits_once(tmp_path: Path) -> None:
    path, head = new_ledger(tmp_path)
    reserve(path, gaussian("all", LARGEST), head).settle()
    before = path.read_bytes()
    with pytest.raises(BudgetError):
        reserve(path, gaussian("more", 1e-6), head)
    assert path.read_bytes() == before
    assert Ledger.open(path, head).left == 0


def test_more_than_the_whole_budget_does_not_fit(tmp_path: Path) -> None:
    path, head = new_ledger(tmp_path)
    with pytest.raises(BudgetError):
        reserve(path, gaussian("all", math.nextafter(LARGEST, math.inf)), head)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_gaussian_runs_are_one_gaussian(mus: list[float]) -> None:
    entries = [gaussian(str(number), mu) for number, mu in enumerate(mus)]
    expected = epsilon_of(math.hypot(*mus), DELTA)
    assert total_epsilon(entries, DELTA) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def exact_delta(epsilon: float, mu: float, each: float, number: int) -> float:
    """Of N(0, 1) against N(mu, 1) and `number` randomised responses of this pure epsilon, which
    are the worst mechanisms of that epsilon. Summed over the outcomes of the responses."""
    truths = np.arange(number + 1)
    loss = (2 * truths - number) * each
    rest = epsilon - loss
    tail = norm.cdf(mu / 2 - rest / mu) - np.exp(rest + norm.logcdf(-mu / 2 - rest / mu))
    return float(binom.pmf(truths, number, 1 / (1 + np.exp(-each))) @ tail)


@given(st.floats(0.05, 2), st.floats(0.01, 6), st.integers(1, 30))
@settings(deadline=None)
def test_the_total_covers_mixed_runs(mu: float, each: float, number: int) -> None:
    entries = [gaussian("g", mu), *(pure(str(run), each) for run in range(number))]
    assert exact_delta(total_epsilon(entries, DELTA), mu, each, number) <= DELTA * (1 + 1e-6)


def test_half_the_total_would_not_cover_mixed_runs() -> None:
    entries = [gaussian("g", 0.5), *(pure(str(run), 0.5) for run in range(10))]
    assert exact_delta(total_epsilon(entries, DELTA) / 2, 0.5, 0.5, 10) > DELTA


@given(st.floats(0, 1e90))
@example(0.0)
@example(1e-15)
@example(699.9)
@example(700.1)
def test_the_mu_of_a_pure_epsilon_is_safe(epsilon: float) -> None:
    assert log_ndtr(-mu_of_pure(epsilon) / 2) <= -np.logaddexp(0, epsilon) * (1 - 1e-15)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1, 3, 10, 100])
def test_the_mu_of_a_pure_epsilon_is_tight(epsilon: float) -> None:
    assert log_ndtr(-mu_of_pure(epsilon) / 2) == pytest.approx(-np.logaddexp(0, epsilon), rel=1e-6)


def test_pure_runs_sum_up_to_the_whole_budget(tmp_path: Path) -> None:
    path, head = new_ledger(tmp_path)
    for run in range(6):
        reserve(path, pure(str(run), 0.5), head).close()
    assert Ledger.open(path, head).spent == EPSILON
    with pytest.raises(BudgetError):
        reserve(path, pure("seventh", 0.5), head)


def test_a_gaussian_run_ends_the_sum_of_pure_ones(tmp_path: Path) -> None:
    path, head = new_ledger(tmp_path)
    reserve(path, pure("first", 2.9), head).close()
    with pytest.raises(BudgetError):
        reserve(path, gaussian("second", 0.05), head)


def test_others_learn_no_figure_from_a_refusal(tmp_path: Path) -> None:
    texts = set()
    for number, mu in enumerate((1.0, 2.0)):
        path, head = new_ledger(tmp_path / str(number), epsilon=mu)
        with pytest.raises(BudgetError) as refused:
            reserve(path, gaussian("run", 9 * mu), head)
        assert "ward" in str(refused.value)
        texts.add(refused.value.public_message)
    assert texts == {"the privacy budget of its data set does not allow this run"}


def test_others_learn_no_path_from_an_error(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="make one with 'cpgt ledger init'") as refused:
        reserve(tmp_path / "none", gaussian("run", 0.1))
    assert str(tmp_path) not in refused.value.public_message


@pytest.mark.parametrize("ledger", ["record", "add-remove"])
@pytest.mark.parametrize("run", ["record", "add-remove", "function"])
def test_one_adjacency(tmp_path: Path, ledger: str, run: str) -> None:
    path, head = new_ledger(tmp_path, adjacency=ledger)
    if run == ledger:
        reserve(path, gaussian("run", 0.1, adjacency=run), head).close()
        return
    with pytest.raises(LedgerError, match=f'set privacy.adjacency = "{ledger}"'):
        reserve(path, gaussian("run", 0.1, adjacency=run), head)


@pytest.mark.parametrize(
    "change",
    [
        {"mu": None},
        {"pure_epsilon": 1.0},
        {"mu": math.inf},
        {"mu": math.nan},
        {"mu": -1.0},
        {"delta": 1.0},
        {"mu": None, "pure_epsilon": 1.0},  # with a delta it is not pure
        {"run": ""},
        {"run": "a\nb"},
        {"network": "x" * 201},
    ],
)
def test_an_entry_that_cannot_be_counted(change: dict[str, object]) -> None:
    with pytest.raises(LedgerError):
        dataclasses.replace(gaussian("run", 0.1), **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [{"epsilon": 0.0}, {"epsilon": math.inf}, {"delta": 0.0}, {"delta": 1.0},
     {"adjacency": "function"}, {"dataset": ""}],
)  # fmt: skip
def test_a_budget_that_cannot_be_kept(tmp_path: Path, change: dict[str, object]) -> None:
    budget = {"dataset": "ward", "adjacency": "record", "epsilon": 1.0, "delta": 1e-5, **change}
    with pytest.raises(LedgerError):
        init_ledger(tmp_path / "ledger", head=tmp_path / "head", **budget)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_settled_and_unsettled_runs_count(tmp_path: Path) -> None:
    path, head = new_ledger(tmp_path)
    with reserve(path, gaussian("over", 0.1), head) as reservation:
        reservation.begin()
        reservation.settle()
    with reserve(path, gaussian("died", 0.1), head):
        pass
    ledger = Ledger.open(path, head)
    assert [run.state for run in ledger.runs] == ["settled", "unsettled"]
    assert ledger.spent == pytest.approx(epsilon_of(math.sqrt(0.02), DELTA))


def test_a_run_that_never_looked_at_the_data_gives_back(tmp_path: Path) -> None:
    path, head = new_ledger(tmp_path)
    reserve(path, gaussian("refused", LARGEST), head).release()
    assert Ledger.open(path, head).spent == 0
    reserve(path, gaussian("refused", LARGEST), head).close()


def test_a_run_that_has_begun_gives_nothing_back(tmp_path: Path) -> None:
    path, head = new_ledger(tmp_path)
    with reserve(path, gaussian("run", 0.1), head) as reservation:
        reservation.begin()
        with pytest.raises(LedgerError, match="has begun"):
            reservation.release()


def test_a_resumed_run_gives_nothing_back(tmp_path: Path) -> None:
    """The process that died may have sent something."""
    path, head = new_ledger(tmp_path)
    reserve(path, gaussian("run", 0.1), head).close()
    with resume(path, "run", head) as reservation:
        assert reservation.entry == gaussian("run", 0.1)
        with pytest.raises(LedgerError, match="has begun"):
            reservation.release()
        reservation.settle()
    assert counted(path, head) == ["run"], "it was counted once"


def test_a_resumed_run_is_durable(tmp_path: Path) -> None:
    """The process that died had written the line, and synced neither the line nor the head."""
    path, head = new_ledger(tmp_path)
    with disk(at=4), pytest.raises(Crash):
        reserve(path, gaussian("run", 0.1), head)
    assert Ledger.open(path, head).run("run")
    with disk() as used, resume(path, "run", head):
        assert used.calls == 3, "the ledger, the head and the head's folder"
    assert head.read_text() == f"{Ledger.open(path, head).head}\n"


def test_a_run_that_is_over_is_not_resumed(tmp_path: Path) -> None:
    path, head = new_ledger(tmp_path)
    reserve(path, gaussian("over", 0.1), head).settle()
    reserve(path, gaussian("given back", 0.1), head).release()
    for run, words in {"over": "is over", "given back": "not in this", "x": "not in this"}.items():
        with pytest.raises(LedgerError, match=words):
            resume(path, run, head)


def test_a_name_is_used_once(tmp_path: Path) -> None:
    path, head = new_ledger(tmp_path)
    reserve(path, gaussian("run", 0.1), head).settle()
    with pytest.raises(LedgerError, match="in this ledger already"):
        reserve(path, gaussian("run", 0.1), head)


def test_a_reservation_ends_once(tmp_path: Path) -> None:
    path, head = new_ledger(tmp_path)
    reservation = reserve(path, gaussian("run", 0.1), head)
    reservation.settle()
    for end in (reservation.settle, reservation.release):
        with pytest.raises(LedgerError, match="closed already"):
            end()


def test_no_digest_of_data_is_in_the_file(tmp_path: Path) -> None:
    """Every string of 64 hex digits is the hash of the line before, or the zeros of line 0."""
    path, head = new_ledger(tmp_path)
    reserve(path, gaussian("run", 0.1), head).settle()
    fields = {field.name for field in dataclasses.fields(Entry)}
    assert fields == {
        "run", "mechanism", "adjacency", "mu", "pure_epsilon", "delta", "peers", "network",
        "rounds", "refreshes",
    }  # fmt: skip
    for line in path.read_text().splitlines():
        assert sum(len(word) == 64 for word in line.split('"')) == 1


class CrashingOwner(RuleBasedStateMachine):
    """Runs that reserve, settle and release on a machine that crashes at any byte."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        with disk():
            self.path, self.head = new_ledger(Path(self.folder.name))
        self.numbers = itertools.count()
        self.acknowledged: dict[str, Entry] = {}
        self.alive: dict[str, Reservation] = {}
        self.uncertain: set[str] = set()  # a crash came before the acknowledgement

    def new_entry(self, mu: float, is_pure: bool) -> Entry:
        name = str(next(self.numbers))
        return pure(name, mu) if is_pure else gaussian(name, mu)

    @rule(mu=st.floats(0, 0.6), is_pure=st.booleans())
    def reserve(self, mu: float, is_pure: bool) -> None:
        entry = self.new_entry(mu, is_pure)
        try:
            with disk():
                self.alive[entry.run] = reserve(self.path, entry, self.head)
            self.acknowledged[entry.run] = entry
        except BudgetError:
            pass

    @rule(mu=st.floats(0, 0.3), at=st.integers(1, 6), part=st.floats(0, 1))
    def crash_in_reserve(self, mu: float, at: int, part: float) -> None:
        entry = self.new_entry(mu, is_pure=False)
        try:
            with disk(at, part):
                self.alive[entry.run] = reserve(self.path, entry, self.head)
            self.acknowledged[entry.run] = entry
        except BudgetError:
            pass
        except Crash:
            self.uncertain.add(entry.run)

    @rule(mu=st.floats(0, 0.3), at=st.integers(1, 6), part=st.floats(0, 1))
    def full_disk_in_reserve(self, mu: float, at: int, part: float) -> None:
        entry, before = self.new_entry(mu, is_pure=False), self.path.read_bytes()
        try:
            with disk(at, part, OSError(28, "No space left on device")):
                self.alive[entry.run] = reserve(self.path, entry, self.head)
            self.acknowledged[entry.run] = entry
        except BudgetError:
            pass
        except LedgerError as error:
            assert "No space left on device" in str(error)
            if self.path.read_bytes() not in (before, before[: before.rfind(b"\n") + 1]):
                self.uncertain.add(entry.run)  # only the head's folder was not synced

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), how=st.sampled_from(["settle", "release", "die"]), at=st.integers(1, 12))
    def end(self, data: st.DataObject, how: str, at: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.alive)))
        reservation = self.alive.pop(name)
        if how == "die":
            reservation.close()
            return
        try:
            with disk(at, part=0.5):
                reservation.settle() if how == "settle" else reservation.release()
        except Crash:
            reservation.close()
        if how == "release":  # whether it counts is open after a crash, and nothing was sent
            del self.acknowledged[name]
            self.uncertain.add(name)

    @invariant()
    def holds_at_least_what_was_acknowledged(self) -> None:
        ledger = Ledger.open(self.path, self.head)
        names = {entry.run: entry for entry in ledger.entries}
        assert self.acknowledged.items() <= names.items()
        assert names.keys() <= self.acknowledged.keys() | self.uncertain
        assert fits(ledger.entries, ledger.opening)

    def teardown(self) -> None:
        for reservation in self.alive.values():
            reservation.close()
        self.folder.cleanup()


TestCrashes = CrashingOwner.TestCase
TestCrashes.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)


def test_every_call_and_every_byte_of_an_append(tmp_path: Path) -> None:
    """All crash points of one append, then the next run reserves on what is left."""
    outcomes = set()
    for at, part in [(at, 0.0) for at in range(1, 7)] + [(3, byte / 400) for byte in range(1, 400)]:
        folder = tmp_path / f"{at}-{part}"
        with disk():
            path, head = new_ledger(folder)
            reserve(path, gaussian("first", 0.1), head).close()
        try:
            with disk(at, part):
                reserve(path, gaussian("second", 0.1), head).close()
            crashed = False
        except Crash:
            crashed = True
        with disk():
            reserve(path, gaussian("third", 0.1), head).close()
        names = counted(path, head)
        assert names in (["first", "third"], ["first", "second", "third"])
        assert crashed or "second" in names
        outcomes.add((crashed, len(names)))
    assert outcomes == {(True, 2), (True, 3), (False, 3)}


def test_errors_have_exit_codes(tmp_path: Path) -> None:
    path, head = new_ledger(tmp_path)
    with pytest.raises(AgentError) as refused:
        reserve(path, gaussian("run", 99), head)
    assert refused.value.exit_code == 5
    with pytest.raises(AgentError) as missing:
        Ledger.open(tmp_path / "none")
    assert missing.value.exit_code == 2
