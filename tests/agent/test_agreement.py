"""A plan against what the owner has agreed to."""

from __future__ import annotations

from typing import Any

import pytest

from cpgt.agent.agreement import Agreement
from cpgt.agent.errors import InputError
from cpgt.wire.messages import Plan, decode_control, encode_control

PARAMETERS: dict[str, Any] = {
    "noise": {"s_x": 1.0, "q": 0.9},
    "objective": {"kind": "ridge", "scale": 2.0},
}
WEIGHTS = {1: 0.5, 2: 0.25, 3: 0.25}
AGREED = Agreement(PARAMETERS, WEIGHTS, 100, 10, 30.0)


def plan(
    parameters: dict[str, Any] = PARAMETERS,
    rounds: int = 100,
    window: int = 10,
    patience: float = 30.0,
    **weights: float,
) -> Plan:
    row = {**WEIGHTS, **{int(name.removeprefix("w")): value for name, value in weights.items()}}
    endpoints = {peer: f"tcp://h:{peer}" for peer in row if peer != 1}
    made = Plan(1, endpoints, row, rounds, window, patience, parameters)
    received = decode_control(encode_control(made))
    assert isinstance(received, Plan)
    return received


def test_the_plan_that_was_agreed_on() -> None:
    AGREED.check(plan())
    AGREED.check(plan(rounds=1))
    # 2 and 2.0 are the same number
    AGREED.check(plan({**PARAMETERS, "objective": {"kind": "ridge", "scale": 2}}))


@pytest.mark.parametrize(
    ("offered", "words"),
    [
        (plan(rounds=101), "rounds is 101 there and 100 in the owner's copy"),
        (plan({**PARAMETERS, "noise": {"s_x": 0.5, "q": 0.9}}), "noise.s_x is 0.5 there and 1.0"),
        (plan({**PARAMETERS, "noise": {"s_x": 1.0}}), "noise.q is nothing there and 0.9"),
        (
            plan({**PARAMETERS, "privacy": {"epsilon": 9.0}}),
            "privacy is {'epsilon': 9.0} there and nothing",
        ),
        (plan(w2=0.3), "the weight of agent 2 is 0.3 there and 0.25"),
        (plan(w4=0.1), "the weight of agent 4 is 0.1 there and nothing"),
        (plan(w4=0.0), "the weight of agent 4 is 0.0 there and nothing"),
        (plan(window=1), "window is 1 there and 10"),
        (plan(window=2**32), "window is 4294967296 there and 10"),
        (plan(patience=1e300), "patience is 1e+300 there and 30.0"),
    ],
)
def test_the_first_difference_is_named(offered: Plan, words: str) -> None:
    with pytest.raises(InputError) as refusal:
        AGREED.check(offered)
    assert words in str(refusal.value)
    assert "use the same network file on both sides" in str(refusal.value)
