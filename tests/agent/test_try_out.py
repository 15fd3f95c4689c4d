"""Compressors and algorithms of the user's own are tried out before the first round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from cpgt.agent.algorithms.registry import build_algorithm
from cpgt.agent.compiled import CompiledCore
from cpgt.agent.compressors import Compressor
from cpgt.agent.compressors.quantizers import Quantizer
from cpgt.agent.compressors.registry import Identity
from cpgt.agent.errors import CodeError, InputError
from cpgt.agent.privacy.noise import LaplaceNoise
from cpgt.agent.try_out import check_algorithm
from cpgt.wire.arrays import Floats
from cpgt.wire.vectors import Dense, Quantized
from tests.own_kinds import FirstK, Slow, State

NOISELESS = LaplaceNoise((0.0,), 1.0)


@dataclass(frozen=True)
class Half(Compressor):
    """Sends v, and claims what `claim` says."""

    claim: Any = 0.0
    factor: float = 1.0

    def phi(self, dimension: int) -> Any:  # noqa: ARG002
        return self.claim

    def compress(self, v: Floats, dither: Floats) -> Any:  # noqa: ARG002
        return Dense(self.factor * v)


class Text(Half):
    def compress(self, v: Floats, dither: Floats) -> Any:  # noqa: ARG002
        return v.tobytes()


class Short(Half):
    def compress(self, v: Floats, dither: Floats) -> Any:  # noqa: ARG002
        return Dense(v[..., 1:])


class Fractions(Half):
    """Levels that are not whole numbers cannot be sent."""

    def compress(self, v: Floats, dither: Floats) -> Any:  # noqa: ARG002
        return Quantized(4, np.ones((*v.shape[:-1], 1), np.float32), np.clip(v, -1, 1))


class Raises(Half):
    def compress(self, v: Floats, dither: Floats) -> Any:  # noqa: ARG002
        raise RuntimeError("not today")


def with_compressor(compressor: Compressor) -> Any:
    return Slow(0.1, 1.0, compressor, NOISELESS)


@pytest.mark.parametrize("compressor", [FirstK(5), Half(), Half(0.25, 0.5), Half(1.0, 0.0)])
def test_compressors_that_work(compressor: Compressor) -> None:
    algorithm = build_algorithm(
        {
            "algorithm": {"kind": "compressed-gradient-tracking", "alpha": 0.1, "gamma": 1.0},
            "compressor": {"kind": "identity"},
            "noise": {"s_x": 0.0, "s_y": 0.0, "q": 1.0},
        }
    )
    object.__setattr__(algorithm, "compressor", compressor)
    check_algorithm(algorithm, 5)


@pytest.mark.parametrize(
    ("compressor", "words"),
    [
        (Half("much"), "compressor 'Half': phi(5) is 'much', not a number of at least 0"),
        (Half(float("nan")), "phi(5) is nan"),
        (Half(-1.0), "phi(5) is -1.0"),
        (Half(0.1, 0.5), "|C(v) - v|^2 is more than phi |v|^2, phi = 0.1"),
        (FirstK(2), "not contractive for d = 5"),
        (Text(), "compress gives a bytes, not Dense, Sparse, Quantized, Powers"),
        (Short(), "C(v) has shape (1, 4), not (1, 5)"),
        (Fractions(1.0), "compressor"),
    ],
)
def test_compressors_that_do_not(compressor: Compressor, words: str) -> None:
    with pytest.raises(InputError) as refusal:
        check_algorithm(with_compressor(compressor), 5)
    assert words in str(refusal.value)


def test_an_exception_of_the_users_code_is_one_line_for_its_owner() -> None:
    with pytest.raises(CodeError, match=r"compressor: when it was tried out: RuntimeError: not to"):
        check_algorithm(with_compressor(Raises()), 5)


class ThreeChannels(Slow):
    channels: ClassVar[int] = 3


class WrongState(Slow):
    def absorb(self, *arguments: Any) -> State:
        state = super().absorb(*arguments)
        return State(state.values[..., 1:], state.sent)


class WrongReference(Slow):
    def reference(self, state: State) -> Floats:
        return state.sent


class NoGradients(Slow):
    def gradients(self, rounds: int) -> int:  # noqa: ARG002
        return 0


@pytest.mark.parametrize(
    ("algorithm", "words"),
    [
        (ThreeChannels, "algorithm 'ThreeChannels': channels = 3; it must be 1 (x) or 2 (x, y)"),
        (WrongState, "state.values has shape (1, 4), not (1, 5)"),
        (WrongReference, "reference(state) has shape (1, 5), not (5,)"),
        (NoGradients, "gradients(100) is 0, not a count"),
    ],
)
def test_algorithms_that_do_not_work(algorithm: type[Slow], words: str) -> None:
    with pytest.raises(InputError) as refusal:
        check_algorithm(algorithm(0.1, 1.0, Identity(), NOISELESS), 5)
    assert words in str(refusal.value)


class OtherQuantizer(Quantizer):
    pass


def test_a_subclass_of_the_quantizer_is_not_replaced_by_compiled_code() -> None:
    parameters = {
        "algorithm": {"kind": "cpgt", "alpha": 0.1, "gamma": 1.0},
        "compressor": {"kind": "quantize", "bits": 4},
        "noise": {"s_x": 1.0, "s_y": 1.0, "q": 1.0},
    }
    algorithm = build_algorithm(parameters)
    object.__setattr__(algorithm, "compressor", OtherQuantizer(4))
    assert not CompiledCore.supports(algorithm, 5)
