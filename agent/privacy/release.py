"""Whole numbers that are released once, with noise, and remembered."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cpgt.agent.privacy.lattice import Stream
from cpgt.agent.privacy.oracle import AnswerLog

Wholes: TypeAlias = NDArray[np.int64]
KeyedStream: TypeAlias = Callable[..., Stream]  # as Randomness.keyed_stream

ROUND_UP = 1.0 + 2.0**-48  # more than the rounding of the few operations that give a deviation


def release(
    parameters: bytes,
    exact: Callable[[], Wholes],
    draw: Callable[[Stream], Wholes],
    keyed: KeyedStream,
    answers: AnswerLog | None,
) -> Wholes:
    """exact() + noise; or the numbers that `answers` has, if they were released before.

    The noise is a function of the secret, of all parameters and of the numbers it hides. So two
    different releases never carry the same noise, not even from one secret."""
    question = hashlib.sha256(parameters).digest()
    released = answers.find(0, question) if answers else None
    if released is None:
        numbers = exact()
        released = numbers + draw(keyed(parameters, numbers.astype("<i8").tobytes()))
        if answers:
            answers.keep(0, question, released)
    return released
