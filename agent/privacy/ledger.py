"""The ledger of a data set: what all runs on it may have spent, and the owner's budget for it.

A run reserves what it may spend before its first message leaves, so a crash at any moment leaves
the ledger with at least what was sent. The records, one a line of a chain (agent/privacy/chain.py):

| kind | fields | meaning |
|---|---|---|
| ledger | format, nonce, dataset, adjacency, epsilon, delta | line 0: the owner's budget |
| reserve | entry | this run may spend this |
| settle | line | the run that was reserved in this line is over; what it reserved stays spent |
| release | line | that run ended before it looked at the data; nothing was spent |

The nonce is random. The data set is known by the owner's name for it alone: a digest of the data
would confirm a guess of the one record that a reader does not know.

**Total.** Runs are composed as Gaussian mechanisms: if run i is mu_i-GDP, all of them together are
mu-GDP with mu^2 = sum of mu_i^2, also if an owner chooses each run after seeing the results of the
earlier ones (Smith and Thakurta, arXiv 2210.17520). They fit if mu <= mu_of(epsilon, delta). A pure
epsilon enters as the mu for which N(0, 1) and N(mu, 1) are as easy to tell apart by one test:

    Phi(-mu / 2) = 1 / (1 + exp(epsilon))

The trade-off curve of epsilon-DP is two lines that meet at this point of the curve of mu-GDP, which
is convex, hence below both lines: epsilon-DP implies mu-GDP. If all runs are pure they fit as well
if their epsilons sum up to the budget. docs/decisions/0021-a-ledger-remembers.md has the proofs,
and says why this is not zCDP.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from statistics import NormalDist
from types import TracebackType
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from cpgt.agent.errors import BudgetError, LedgerError
from cpgt.agent.privacy import chain
from cpgt.agent.privacy.chain import Head, LiveLock
from cpgt.agent.privacy.gdp import epsilon_of, mu_of

FORMAT = 1
NONCE_BYTES = 16
MAX_TEXT = 200
MAX_COST = 1e100  # of a run; squares stay finite
RunState: TypeAlias = Literal["unsettled", "settled", "released"]
Mechanism: TypeAlias = Literal["gradient", "objective", "state"]
# Adjacent functions differ by a distance that each run states for itself, so runs under function
# adjacency cannot be summed.
ADJACENCIES = ("record", "add-remove")


class LedgerBudgetError(BudgetError):
    """The budget of the data set does not suffice. Others learn that, and no figure."""

    @property
    def public_message(self) -> str:
        return "the privacy budget of its data set does not allow this run"


@dataclass(frozen=True)
class Entry:
    """What a run may spend at most: mu of its Gaussian mechanism, or a pure epsilon."""

    run: str  # unique in the ledger
    mechanism: Mechanism
    adjacency: str
    mu: float | None
    pure_epsilon: float | None
    delta: float  # at which the run states its epsilon; 0 for a pure one; not summed
    peers: list[int]
    network: str
    rounds: int
    refreshes: int

    def __post_init__(self) -> None:
        _require_text(self.run, "the run")
        _require_text(self.network, "the network")
        if (self.mu is None) == (self.pure_epsilon is None):
            raise LedgerError(f"run {self.run}: needs either mu or a pure epsilon")
        cost = self.mu if self.mu is not None else self.pure_epsilon
        if cost is None or not 0 <= cost < MAX_COST:
            raise LedgerError(
                f"run {self.run}: it adds too little noise: its epsilon is not finite"
            )
        if not 0 <= self.delta < 1 or (self.mu is None and self.delta):
            raise LedgerError(f"run {self.run}: delta is {self.delta:g}")

    @property
    def mu_bound(self) -> float:
        """The run is mu-GDP for this mu."""
        if self.mu is not None:
            return self.mu
        assert self.pure_epsilon is not None
        return mu_of_pure(self.pure_epsilon)

    @property
    def epsilon(self) -> float:
        """Of this run alone, at its own delta."""
        if self.pure_epsilon is not None:
            return self.pure_epsilon
        return _epsilon(self.mu_bound, self.delta)


class Opening(msgspec.Struct, frozen=True, tag="ledger", tag_field="kind"):
    """The owner's budget for a data set. Never changed: a larger one is another promise."""

    format: int
    nonce: str
    dataset: str
    adjacency: str
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise LedgerError(f"format {self.format} is not known here: install a newer cpgt")
        _require_text(self.dataset, "the data set's name")
        if self.adjacency not in ADJACENCIES:
            raise LedgerError(f"the adjacency of a ledger is one of {', '.join(ADJACENCIES)}")
        if not (0 < self.epsilon < math.inf and 0 < self.delta < 1):
            raise LedgerError("a budget needs 0 < epsilon < infinity and 0 < delta < 1")


class _Reserve(msgspec.Struct, frozen=True, tag="reserve", tag_field="kind"):
    entry: Entry


class _Settle(msgspec.Struct, frozen=True, tag="settle", tag_field="kind"):
    line: int


class _Release(msgspec.Struct, frozen=True, tag="release", tag_field="kind"):
    line: int


_Record: TypeAlias = Opening | _Reserve | _Settle | _Release


class Run(NamedTuple):
    line: int
    date: str  # for readers only
    entry: Entry
    state: RunState


@dataclass(frozen=True)
class Ledger:
    """The content of a ledger file."""

    opening: Opening
    runs: tuple[Run, ...]
    head: Head
    torn: bool  # an append was interrupted; nobody was told that it succeeded

    @classmethod
    def open(cls, path: Path, head: Path | None = None) -> Ledger:
        """Read a ledger and compare it with its head, kept in the file `head`, or by default in
        the user's state folder. Raises LedgerError if it was changed or rolled back."""
        return _replay(path, chain.require_kept_head(path, head))

    @classmethod
    def open_unguarded(cls, path: Path) -> Ledger:
        """Read a ledger without its head: an older copy is not noticed."""
        return _replay(path, chain.read(path))

    @property
    def entries(self) -> list[Entry]:
        """What counts: every run that was reserved and not released."""
        return [run.entry for run in self.runs if run.state != "released"]

    @property
    def spent(self) -> float:
        """Epsilon of all runs together, at the owner's delta."""
        return total_epsilon(self.entries, self.opening.delta)

    @property
    def left(self) -> float:
        """Epsilon of one more Gaussian run that would fit, at the owner's delta."""
        square = _capacity(self.opening.epsilon, self.opening.delta) - _square(self.entries)
        return _epsilon(math.sqrt(max(square, Fraction(0))), self.opening.delta)

    def run(self, name: str) -> Run | None:
        counted = (run for run in self.runs if run.state != "released")
        return next((run for run in counted if run.entry.run == name), None)

    def check(self, entry: Entry) -> None:
        """Raise if this run cannot be counted here, or does not fit into the budget."""
        if entry.adjacency != self.opening.adjacency:
            raise LedgerError(
                f"run {entry.run} is private under {entry.adjacency} adjacency, and this ledger "
                f"counts {self.opening.adjacency} adjacency; set privacy.adjacency = "
                f'"{self.opening.adjacency}" in the network file'
            )
        if self.run(entry.run):
            raise LedgerError(f"run {entry.run} is in this ledger already: choose another name")
        if not fits([*self.entries, entry], self.opening):
            raise self._refusal(entry)

    def _refusal(self, entry: Entry) -> LedgerBudgetError:
        budget, after = self.opening, [*self.entries, entry]
        return LedgerBudgetError(
            f"data set {budget.dataset}: with this run the total would be epsilon "
            f"{total_epsilon(after, budget.delta):.6g}, and the budget is {budget.epsilon:g} "
            f"(delta {budget.delta:g}, {budget.adjacency} adjacency); spent so far {self.spent:.6g}"
        )


class Reservation:
    """The right to spend what was reserved, in this process alone, until it is closed.

    A reservation that is closed, or whose process died, without being settled stays spent."""

    def __init__(self, path: Path, head: Path | None, run: Run, lock: LiveLock, fresh: bool):
        self.entry, self.line = run.entry, run.line
        self._path, self._head, self._lock = path, head, lock
        self._unused = fresh  # this process made it, and has not looked at the data

    def begin(self) -> None:
        """Call before the first look at the data that others may learn of."""
        self._unused = False

    def settle(self) -> None:
        """The run is over. Durable when this returns; then the run's secret may be deleted."""
        self._end(_Settle(self.line))

    def release(self) -> None:
        """Give back what was reserved: the run ended before it looked at the data."""
        if not self._unused:
            raise LedgerError(f"run {self.entry.run} has begun: what it reserved is spent")
        self._end(_Release(self.line))

    def close(self) -> None:
        self._lock.release()

    def _end(self, record: _Settle | _Release) -> None:
        if not self._lock.held:
            raise LedgerError(f"run {self.entry.run} is closed already in this process")
        with _writing(self._path, self._head) as (writer, ledger):
            _require_unsettled(ledger, self.entry.run)
            writer.append(msgspec.json.encode(record))
        self.close()

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()


def init_ledger(
    path: Path, *, dataset: str, adjacency: str, epsilon: float, delta: float,
    head: Path | None = None,
) -> None:  # fmt: skip
    """Make the ledger of a data set, once for all its versions, copies and exports."""
    nonce = secrets.token_hex(NONCE_BYTES)
    opening = Opening(FORMAT, nonce, dataset, adjacency, epsilon, delta)
    chain.create(path, msgspec.json.encode(opening), head)


def reserve(path: Path, entry: Entry, head: Path | None = None) -> Reservation:
    """Reserve what a run may spend, before its first message. Durable when this returns.

    Raises LedgerBudgetError if the owner's budget does not suffice, with nothing written."""
    with _writing(path, head) as (writer, ledger):
        ledger.check(entry)
        line = ledger.head.seq + 1
        lock = LiveLock(path, line)
        try:
            writer.append(msgspec.json.encode(_Reserve(entry)))
        except BaseException:
            lock.release()
            raise
    return Reservation(path, head, Run(line, "", entry, "unsettled"), lock, fresh=True)


def resume(path: Path, name: str, head: Path | None = None) -> Reservation:
    """The reservation of a run whose process died. It costs nothing more, so the run must answer
    from what it remembers, and ask nothing new beyond what it reserved."""
    with _writing(path, head) as (writer, ledger):
        run = _require_unsettled(ledger, name)
        writer.sync()
        return Reservation(path, head, run, LiveLock(path, run.line), fresh=False)


def fits(entries: Sequence[Entry], budget: Opening) -> bool:
    """Whether these runs together are within the budget. Exact: fractions, no rounding."""
    pure = _pure_sum(entries)
    if pure is not None and pure <= Fraction(budget.epsilon):
        return True
    return _square(entries) <= _capacity(budget.epsilon, budget.delta)


def total_epsilon(entries: Sequence[Entry], delta: float) -> float:
    """Epsilon of these runs together."""
    mu = math.hypot(*(entry.mu_bound for entry in entries)) * (1 + 2.0**-50)  # rounded up
    gaussian = _epsilon(mu, delta)
    pure = _pure_sum(entries)
    return gaussian if pure is None else min(gaussian, float(pure))


def mu_of_pure(epsilon: float) -> float:
    """A mu for which every epsilon-DP mechanism is mu-GDP; the smallest, rounded up."""
    if epsilon > 700:  # exp overflows soon; Phi(-t) <= exp(-t^2 / 2) / 2 gives this bound
        return math.sqrt(8 * epsilon) * (1 + 1e-9)
    return -2 * NormalDist().inv_cdf(1 / (1 + math.exp(epsilon))) * (1 + 1e-9) + 1e-12


def _pure_sum(entries: Sequence[Entry]) -> Fraction | None:
    """The sum of all epsilons, if all are pure."""
    pure = [Fraction(e.pure_epsilon) for e in entries if e.pure_epsilon is not None]
    return sum(pure, Fraction(0)) if len(pure) == len(entries) else None


def _square(entries: Sequence[Entry]) -> Fraction:
    """The sum of mu^2."""
    return sum((Fraction(entry.mu_bound) ** 2 for entry in entries), Fraction(0))


@cache
def _capacity(epsilon: float, delta: float) -> Fraction:
    """The largest sum of mu^2 within this budget."""
    return Fraction(mu_of(epsilon, delta)) ** 2


def _epsilon(mu: float, delta: float) -> float:
    return epsilon_of(mu, delta) if mu else 0.0


@contextmanager
def _writing(path: Path, head: Path | None) -> Iterator[tuple[chain.Writer, Ledger]]:
    with chain.writing(path, head) as writer:
        yield writer, _replay(path, writer.chain)


def _require_unsettled(ledger: Ledger, name: str) -> Run:
    run = ledger.run(name)
    if run is None:
        raise LedgerError(f"run {name} is not in this ledger")
    if run.state != "unsettled":
        raise LedgerError(f"run {name} is over: it is settled in this ledger")
    return run


def _replay(path: Path, read: chain.Chain) -> Ledger:
    opening: Opening | None = None
    runs: dict[int, Run] = {}
    for line in read.lines:
        match _decode(path, line):
            case Opening() as record if line.seq == 0:
                opening = record
            case _Reserve(entry) if opening:
                runs[line.seq] = Run(line.seq, line.date, entry, "unsettled")
            case _Settle(number) if number in runs and runs[number].state == "unsettled":
                runs[number] = runs[number]._replace(state="settled")
            case _Release(number) if number in runs and runs[number].state == "unsettled":
                runs[number] = runs[number]._replace(state="released")
            case _:
                raise LedgerError(f"{path} was changed: line {line.seq} contradicts earlier ones")
    assert opening
    return Ledger(opening, tuple(runs.values()), read.head, read.torn)


def _decode(path: Path, line: chain.Line) -> _Record:
    try:
        record: _Record = msgspec.json.decode(line.record, type=_Record)
        return record
    except (ValueError, RecursionError) as error:
        raise LedgerError(f"{path}: line {line.seq} cannot be read: {error}") from None


def _require_text(text: str, what: str) -> None:
    if not (0 < len(text) <= MAX_TEXT and text.isprintable()):
        raise LedgerError(f"{what} needs 1 to {MAX_TEXT} characters that can be printed")
