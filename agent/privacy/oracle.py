"""The gradient mechanism: an oracle between the algorithm and the data, which noises every answer.

The oracle has the interface of an objective, so every algorithm is private with it. It is the only
code that reads records. For record r at the point x of question t:

    v_r = rint(clip(grad loss_r(x)) scale / g)     whole, |v_r| <= BOUND: privacy/clipping.py
    G   = sum_r v_r + Z                            Z = rint(N(0, sigma^2)): privacy/gaussian.py
    answer = g G + grad regulariser(x)

| symbol | name        | meaning                                                                  |
|--------|-------------|--------------------------------------------------------------------------|
| T      | questions   | fixed before the run; a later question gets the last G once more         |
| Delta  | sensitivity | 2 BOUND if one record is replaced, BOUND if one is added or removed      |
| sigma  | sigma       | Delta sqrt(T) / mu                                                       |
| mu     | mu          | of Gaussian differential privacy: the owner's (epsilon, delta) allow it  |

Why this is private: sum_r v_r is whole, so S + rint(N) = rint(S + N), which is post-processing of a
Gaussian mechanism. T of them, each with Delta / sigma = mu / sqrt(T), compose to mu-GDP, even if
every x is chosen after seeing all answers before. All that the agent does afterwards is
post-processing. epsilon is that of the whole run, however early it ends.

Answers are remembered. Z is a function of the secret, t, x, the sum and all parameters. So the
same question gets the same answer, and noise is never used for two different ones. An answer is on
the disk before anything that depends on it is sent. After a restart it is read, not computed: a
sum that a changed file or another processor rounds differently would get other noise, and asking
twice would spend twice.
"""

from __future__ import annotations

import hashlib
import math
import os
import struct
from dataclasses import astuple, dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cpgt.agent.errors import AgentError, FolderError, InputError
from cpgt.agent.objectives import RecordObjective
from cpgt.agent.privacy.clipping import BOUND, clipped_sum, lattice_step
from cpgt.agent.privacy.gaussian import MAX_SIGMA, rounded_gaussian
from cpgt.agent.privacy.gdp import mu_of
from cpgt.agent.privacy.randomness import Randomness
from cpgt.wire.arrays import Floats

PURPOSE = b"cpgt gradient oracle 1"  # changes with every change of what the noise is computed from
DIGEST_BYTES = 32
RECORD = struct.Struct("<II")  # question, number of coordinates

RecordAdjacency: TypeAlias = Literal["record", "add-remove"]
Wholes: TypeAlias = NDArray[np.int64]


class OracleError(AgentError):
    """A question that the oracle must not answer."""


@dataclass(frozen=True)
class GradientTerms:
    """What the noise is computed from. All of it is public, and fixed before the first answer."""

    epsilon: float
    delta: float
    adjacency: RecordAdjacency
    clip: float
    questions: int

    def __post_init__(self) -> None:
        if not self.sigma <= MAX_SIGMA:
            raise InputError(
                f"privacy: epsilon = {self.epsilon:g} and delta = {self.delta:g} are too small for "
                f"{self.questions} gradients; allow more, or run fewer rounds"
            )

    @cached_property
    def mu(self) -> float:
        return mu_of(self.epsilon, self.delta)

    @property
    def sensitivity(self) -> int:
        """How far one record can move a sum, in lattice steps."""
        return BOUND if self.adjacency == "add-remove" else 2 * BOUND

    @cached_property
    def sigma(self) -> float:
        """In lattice steps; rounded up."""
        if self.mu == 0:
            return math.inf
        return self.sensitivity * math.sqrt(self.questions) / self.mu * (1 + 2.0**-40)


class AnswerLog:
    """The answers given so far, in a file that only the owner can read.

    | bytes  | content                                                    |
    |--------|------------------------------------------------------------|
    | 4      | t                                                          |
    | 4      | d                                                          |
    | 32     | digest of the question: x and all parameters               |
    | 8 d    | G, whole numbers                                           |
    | 32     | SHA-256 of the above                                       |

    A record that a crash cut off was never used: nothing leaves before it is complete. So it is
    dropped. Without a path, answers are kept in memory alone."""

    def __init__(self, path: Path | None = None) -> None:
        self._answers: dict[int, tuple[bytes, Wholes]] = {}
        self._path = path
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)  # with a seed, no secret is there yet
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.ftruncate(self._file, self._read(path.read_bytes()))
                os.lseek(self._file, 0, os.SEEK_END)
                _sync_folder(path.parent)
            except BaseException:
                os.close(self._file)
                raise
        except OSError as error:
            raise FolderError(f"cannot write {path}: {error.strerror}") from None

    def _read(self, stored: bytes) -> int:
        """Take over the complete records; returns where they end."""
        at = 0
        while len(stored) - at >= RECORD.size:
            t, d = RECORD.unpack_from(stored, at)
            end = at + RECORD.size + DIGEST_BYTES + 8 * d
            record, check = stored[at:end], stored[end : end + DIGEST_BYTES]
            if hashlib.sha256(record).digest() != check:
                if end + DIGEST_BYTES < len(stored):
                    raise FolderError(f"{self._path} was changed: the run cannot continue")
                break
            question = record[RECORD.size :][:DIGEST_BYTES]
            self._answers[t] = question, np.frombuffer(record, "<i8", d, end - at - 8 * d)
            at = end + DIGEST_BYTES
        return at

    def find(self, t: int, question: bytes) -> Wholes | None:
        """The answer to question t, if it was given. Raises if it was another question."""
        asked, answer = self._answers.get(t, (question, None))
        if asked != question:
            raise OracleError(
                f"question {t} about the data was asked before this agent restarted, at another "
                "point; a second answer would spend privacy twice, so the run ends here"
            )
        return answer

    def given(self, t: int) -> Wholes:
        """The answer to question t, which was given before this agent restarted."""
        if t not in self._answers:
            raise FolderError(f"{self._path} lacks answer {t}: the run cannot continue")
        return self._answers[t][1]

    def keep(self, t: int, question: bytes, answer: Wholes) -> None:
        """Returns when the answer is on the disk."""
        self._answers[t] = question, answer
        if self._path is None:
            return
        record = RECORD.pack(t, len(answer)) + question + answer.astype("<i8").tobytes()
        try:
            _write_all(self._file, record + hashlib.sha256(record).digest())
            os.fsync(self._file)
        except OSError as error:
            raise FolderError(f"cannot write {self._path}: {error.strerror}") from None

    def close(self) -> None:
        if self._path is not None:
            os.close(self._file)


def _write_all(file: int, record: bytes) -> None:
    while record:
        record = record[os.write(file, record) :]


def _sync_folder(folder: Path) -> None:
    """Make the name of a new file durable, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class GradientOracle:
    """A private objective. Leading axes of x are trials of an experiment: each is a network in its
    own right, with its own noise and T questions. An agent has one trial."""

    def __init__(
        self,
        objective: RecordObjective,
        terms: GradientTerms,
        randomness: Randomness,
        answers: AnswerLog | None = None,
    ) -> None:
        self.dimension = objective.dimension
        self._objective, self._terms, self._randomness = objective, terms, randomness
        self._answers = answers
        self._step = lattice_step(terms.clip, objective.scale, self.dimension)
        self._parameters = repr((astuple(terms), terms.sigma, objective.scale, BOUND)).encode()
        self.asked = 0
        self._last = np.zeros((1, self.dimension), np.int64)

    def resume(self, asked: int) -> None:
        """Go on after this many questions, which are in the log."""
        self.asked = asked
        if asked and self._answers:
            self._last = self._answers.given(asked - 1)[None]

    def gradient(self, x: Floats) -> Floats:
        points = np.ascontiguousarray(x, "<f8").reshape(-1, self.dimension)
        if self.asked < self._terms.questions:
            self._last = np.stack([self._answer(trial, x) for trial, x in enumerate(points)])
            self.asked += 1
        noised = self._step * self._last.astype(np.float64)
        regularised = [self._objective.regulariser_gradient(point) for point in points]
        answers: Floats = noised + np.stack(regularised)
        return answers.reshape(x.shape)

    def _answer(self, trial: int, x: Floats) -> Wholes:
        if self._answers is None:
            return self._noised_sum(trial, x)
        question = hashlib.sha256(self._parameters + x.tobytes()).digest()
        answer = self._answers.find(self.asked, question)
        if answer is None:
            answer = self._noised_sum(trial, x)
            self._answers.keep(self.asked, question, answer)
        return answer

    def _noised_sum(self, trial: int, x: Floats) -> Wholes:
        total = clipped_sum(self._objective, x, self._terms.clip)
        numbers = struct.pack("<II", self.asked, self._randomness.first_trial + trial)
        parts = (PURPOSE, numbers, self._parameters, x.tobytes(), total.tobytes())
        noise = rounded_gaussian(
            self._randomness.keyed_stream(*parts), self.dimension, self._terms.sigma
        )
        answer: Wholes = total + noise
        return answer
