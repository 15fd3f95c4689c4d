"""[privacy]: which keys belong to which mechanism, and the one line that says what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cpgt import NetworkError, load_network, parse_network
from cpgt.agent.privacy.budget import Claims
from cpgt.configuration.loading import shipped_networks
from cpgt.configuration.network import Network
from cpgt.configuration.schema import PrivacySection
from cpgt.deployment.agreements import owners_claims

SMALL: dict[str, Any] = {
    "rounds": 10,
    "algorithm": {"alpha": 0.1},
    "graph": {"kind": "ring", "agents": 4},
    "objective": {"kind": "least-squares"},
}
NOISE = {"s_x": 1.0, "s_y": 1.0}
BUDGET = {"epsilon": 3.0, "delta": 1e-5}
GRADIENT = {"mechanism": "gradient", **BUDGET, "clip": 0.5}
OBJECTIVE = {"mechanism": "objective", **BUDGET, "feature_bound": 1.0, "target_bound": 2.0}
FUNCTION = {"mechanism": "objective", **BUDGET, "adjacency": "function", "sensitivity": 1.0}
STATE = {"mechanism": "state", "epsilon": 3.0, "sensitivity": 1.0, "magnitude": 1e3}


def network(privacy: dict[str, Any], **sections: Any) -> Network:
    return parse_network({**SMALL, "privacy": privacy, **sections})


def mistake(privacy: dict[str, Any], **sections: Any) -> str:
    with pytest.raises(NetworkError) as caught:
        network(privacy, **sections)
    (line,) = str(caught.value).splitlines()
    return line.removeprefix("network: ")


@pytest.mark.parametrize(
    ("privacy", "noise", "mechanism", "adjacency"),
    [
        (GRADIENT, {}, "gradient", "record"),
        ({**GRADIENT, "adjacency": "add-remove"}, {}, "gradient", "add-remove"),
        ({**BUDGET, "clip": 0.5}, {}, "gradient", "record"),
        (OBJECTIVE, {}, "objective", "record"),
        ({**OBJECTIVE, "adjacency": "add-remove"}, {}, "objective", "add-remove"),
        (FUNCTION, {}, "objective", "function"),
        (STATE, NOISE, "state", "function"),
        ({**STATE, "adjacency": "record", "smoothness": 2.0}, NOISE, "state", "record"),
        ({}, NOISE, "state", "function"),
        ({"mechanism": "state"}, {}, "state", "function"),
        ({}, {"agents": {2: {"s_y": 1.0}}}, "state", "function"),
    ],
)
def test_the_mechanism_in_force(
    privacy: dict[str, Any], noise: dict[str, Any], mechanism: str, adjacency: str
) -> None:
    found = network(privacy, noise=noise)
    assert found.mechanism == mechanism
    assert found.claims == {**privacy, "mechanism": mechanism, "adjacency": adjacency}
    assert found.parameters(1)["privacy"] == found.claims
    assert Claims.of(found.claims).given() == found.claims


def test_a_network_without_noise_and_epsilon_has_no_mechanism() -> None:
    found = network({"sensitivity": 1.0})
    assert found.mechanism is None
    assert found.claims == {"sensitivity": 1.0}


def test_claims_have_the_keys_of_the_section() -> None:
    assert list(Claims.__dataclass_fields__) == list(PrivacySection.model_fields)


@pytest.mark.parametrize(
    ("privacy", "missing"),
    [
        (GRADIENT, ("epsilon", "delta", "clip")),
        (OBJECTIVE, ("epsilon", "delta", "feature_bound", "target_bound")),
        (FUNCTION, ("epsilon", "sensitivity")),
        (STATE, ("sensitivity", "magnitude")),
    ],
)
def test_a_missing_key(privacy: dict[str, Any], missing: tuple[str, ...]) -> None:
    for key in missing:
        line = mistake({name: value for name, value in privacy.items() if name != key})
        assert line.startswith(f"privacy.{key}: is missing; mechanism {privacy['mechanism']!r} ")


@pytest.mark.parametrize(
    ("privacy", "strangers"),
    [
        (GRADIENT, ("sensitivity", "smoothness", "magnitude", "rounding", "feature_bound")),
        (OBJECTIVE, ("clip", "sensitivity", "magnitude")),
        (FUNCTION, ("clip", "feature_bound", "target_bound", "smoothness")),
        (STATE, ("clip", "feature_bound", "target_bound")),
    ],
)
def test_a_key_of_another_mechanism(privacy: dict[str, Any], strangers: tuple[str, ...]) -> None:
    for key in strangers:
        line = mistake({**privacy, key: 0.5})
        assert line.startswith(f"privacy.{key}: does not belong to mechanism ")


@pytest.mark.parametrize(
    ("privacy", "line"),
    [
        ({**GRADIENT, "adjacency": "function"}, "has no 'function'; choose record or add-remove"),
        ({**STATE, "adjacency": "add-remove"}, "has no 'add-remove'; choose function or record"),
        ({"clip": 1.0}, "privacy.mechanism: is missing; clip need"),
        ({**GRADIENT, "epsilon": 0.0}, "privacy.epsilon: "),
        ({**GRADIENT, "mechanism": "magic"}, "privacy.mechanism: "),
    ],
)
def test_other_mistakes(privacy: dict[str, Any], line: str) -> None:
    assert line in mistake(privacy)


@pytest.mark.parametrize("privacy", [GRADIENT, OBJECTIVE, FUNCTION])
@pytest.mark.parametrize("noise", [{"s_x": 0.1}, {"agents": {3: {"s_y": 1.0}}}])
def test_only_the_state_mechanism_has_scales(
    privacy: dict[str, Any], noise: dict[str, Any]
) -> None:
    assert "chooses its own noise; leave s_x and s_y out" in mistake(privacy, noise=noise)


@pytest.mark.parametrize(
    ("privacy", "noise"),
    [
        ({"delta": 0.1}, NOISE),
        ({"delta": 0.1}, {}),
        ({"delta": 1.0}, NOISE),
        ({"epsilon": 20.0, "delta": 3, "magnitude": 100.0}, NOISE),
        ({"mechanism": "state", "delta": 0.1}, {}),
    ],
)
def test_a_file_in_which_delta_is_a_distance_is_told_what_to_write(
    privacy: dict[str, Any], noise: dict[str, Any]
) -> None:
    line = mistake(privacy, noise=noise)
    assert line.startswith("privacy.delta: ")
    assert f"write privacy.sensitivity = {privacy['delta']}" in line


def test_another_mechanism_on_the_command_line_drops_what_it_does_not_have() -> None:
    changes = ["privacy.clip=0.5", "privacy.mechanism=gradient", "privacy.epsilon=3"]
    found = load_network("paper", [*changes, "privacy.delta=1e-5"])
    assert found.claims == {**GRADIENT, "adjacency": "record"}
    with pytest.raises(NetworkError, match=r"privacy\.sensitivity: does not belong"):
        load_network("paper", [*changes, "privacy.delta=1e-5", "privacy.sensitivity=1"])
    with pytest.raises(NetworkError, match=r"privacy\.mechanism: .*'gradient'"):
        load_network("paper", ["privacy.mechanism=magic"])


@pytest.mark.parametrize(
    ("privacy", "noise", "words"),
    [
        (GRADIENT, {}, "epsilon 3, delta 1e-05, record adjacency, mechanism gradient"),
        (FUNCTION, {}, "epsilon 3, delta 1e-05, sensitivity 1, function adjacency"),
        (STATE, NOISE, "epsilon 3, sensitivity 1, function adjacency, mechanism state"),
        ({"sensitivity": 1.0}, NOISE, "epsilon as reported, sensitivity 1, function adjacency"),
    ],
)
def test_what_is_stated(privacy: dict[str, Any], noise: dict[str, Any], words: str) -> None:
    found = network(privacy, noise=noise)
    assert found.noisy
    assert (found.stated_privacy or "").startswith(words)


@pytest.mark.parametrize(
    ("privacy", "noise", "kind"),
    [
        ({}, {}, "cpgt"),
        ({}, NOISE, "cpgt"),
        ({"sensitivity": 1.0}, {}, "cpgt"),
        ({"sensitivity": 1.0}, {"s_x": 1.0, "agents": {1: {"s_y": 1.0}}}, "cpgt"),
        ({"sensitivity": 1.0}, {"s_x": 1.0}, "private-gradient-descent"),
    ],
)
def test_nothing_is_stated(privacy: dict[str, Any], noise: dict[str, Any], kind: str) -> None:
    algorithm = {"kind": kind, "alpha": 0.1}
    assert network(privacy, noise=noise, algorithm=algorithm).stated_privacy is None


@pytest.mark.parametrize("name", [name for name in shipped_networks() if "paper" in name])
def test_the_papers_networks_have_the_papers_mechanism(name: str) -> None:
    assert load_network(name).privacy.mechanism == "state"


# --- the owner of an agent ------------------------------------------------------------------------


@given(own=st.floats(0.01, 10), file=st.floats(0.01, 10))
def test_an_owner_can_only_lower_epsilon_and_delta(own: float, file: float) -> None:
    read = network({**GRADIENT, "epsilon": file, "delta": file / 100})
    claims = owners_claims(read, 1, Claims(epsilon=own, delta=own / 100))
    assert (claims.epsilon, claims.delta) == (min(own, file), min(own, file) / 100)
    assert (claims.mechanism, claims.clip) == ("gradient", 0.5)
    again = Claims(epsilon=own, delta=own / 100).overriding(Claims.of(read.claims))
    assert (again.epsilon, again.delta) == (claims.epsilon, claims.delta)


@pytest.mark.parametrize(
    ("privacy", "noise", "given", "line"),
    [
        ({}, {}, Claims(epsilon=1.0), "--epsilon: needs privacy.mechanism"),
        ({}, NOISE, Claims(epsilon=1.0), "--sensitivity: is missing; mechanism 'state' needs it"),
        (STATE, NOISE, Claims(delta=0.1), "write privacy.sensitivity = 0.1 (--sensitivity 0.1)"),
        (GRADIENT, {}, Claims(magnitude=1.0), "--magnitude: does not belong to mechanism"),
        (GRADIENT, {}, Claims(adjacency="function"), "--adjacency: mechanism 'gradient' has no"),
    ],
)
def test_options_of_an_agent_that_do_not_fit(
    privacy: dict[str, Any], noise: dict[str, Any], given: Claims, line: str
) -> None:
    with pytest.raises(NetworkError) as caught:
        owners_claims(network(privacy, noise=noise), 1, given)
    assert line in str(caught.value)
