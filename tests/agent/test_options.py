"""An agent checks the options of a plan against the bounds in the hints, as the network file is."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cpgt.agent.algorithms.registry import build_algorithm
from cpgt.agent.errors import InputError
from cpgt.agent.objectives.registry import build_objective

PLAN: dict[str, dict[str, Any]] = {
    "algorithm": {"kind": "quantized-gradient-tracking", "alpha": 0.1, "gamma": 1.0},
    "compressor": {"kind": "identity"},
    "noise": {"s_x": 0.0, "s_y": 0.0, "q": 1.0},
}


@pytest.mark.parametrize(
    ("section", "options", "problem"),
    [
        ("algorithm", {"alpha": float("inf")}, "algorithm.alpha must be positive, not inf"),
        ("algorithm", {"alpha": float("nan")}, "algorithm.alpha must be positive, not nan"),
        ("algorithm", {"gamma": 1.5}, "algorithm.gamma must be in (0, 1], not 1.5"),
        ("algorithm", {"shrink": 1.0}, "algorithm.shrink must be in (0, 1), not 1.0"),
        ("algorithm", {"bits": 17}, "algorithm.bits must be in [1, 16], not 17"),
        ("algorithm", {"bits": "4"}, "algorithm.bits must be in [1, 16], not '4'"),
        ("algorithm", {"colour": 4}, "the plan's parameters cannot be used"),
        ("compressor", {"kind": "top-k", "k": 0}, "compressor.k must be at least 1, not 0"),
        ("compressor", {"kind": "zip"}, "compressor.kind = 'zip' is not known"),
    ],
)
def test_an_option_outside_its_bounds(section: str, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=re.escape(problem)):
        build_algorithm({**PLAN, section: {**PLAN[section], **options}})


def test_an_objective_outside_its_bounds() -> None:
    with pytest.raises(InputError, match=r"dimension must be in \[1, 268,435,456\], not 0"):
        build_objective("idle", {"dimension": 0}, {})
