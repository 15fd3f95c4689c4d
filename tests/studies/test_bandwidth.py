from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from cpgt.agent.objectives import Objective
from cpgt.configuration.data import build_objectives
from cpgt.configuration.loading import NetworkError, load_network, parse_network
from cpgt.configuration.network import Network
from cpgt.results.optimum import solve
from cpgt.results.traffic import ALL_LAYERS
from cpgt.runs.in_process import run
from cpgt.studies.bandwidth.bandwidth_report import Findings, findings_as_dict, saving, sentences
from cpgt.studies.bandwidth.contenders import (
    ALPHA_FACTORS,
    EXTRA,
    GAMMAS,
    UNCOMPRESSED,
    contenders,
    parse_compressor,
    rival,
    tune_step_sizes,
)
from cpgt.studies.bandwidth.measure import Measured, RoundSizes


@pytest.fixture
def network() -> Network:
    sizes = ["synthetic.dimension=20", "rounds=200"]
    return load_network(
        "quadratic", [*sizes, "synthetic.heterogeneity=0.1", "synthetic.condition=2"]
    )


def test_a_network_meets_the_compressors_asked_for_and_itself_uncompressed(
    network: Network,
) -> None:
    found = contenders(network, "top-k:k=2,quantize:bits=2")
    assert list(found) == [
        "quantize:bits=4",
        "top-k:k=2",
        "quantize:bits=2",
        UNCOMPRESSED,
    ]
    assert [c.compressor.kind for c in found.values()] == [
        "quantize",
        "top-k",
        "quantize",
        "identity",
    ]
    assert all(c.algorithm == network.algorithm for c in found.values())
    assert {c.synthetic for c in found.values()} == {network.synthetic}


def test_a_compressor_is_not_run_twice(network: Network) -> None:
    assert len(contenders(network, "quantize:bits=4,quantize:bits=4")) == 2


def test_options_of_a_compressor_are_typed() -> None:
    choice = parse_compressor("top-k:k=2:values=float16")
    assert (choice.kind, choice.options) == ("top-k", {"k": 2, "values": "float16"})


@pytest.mark.parametrize(
    ("specs", "problem"),
    [
        ("zip:level=9", "compressor.kind: 'zip' is not known"),
        ("top-k:k=0", "compressor.k: Input should be greater than or equal to 1, not 0"),
        ("top-k:k=99", "more than the dimension"),
        ("top-k:k", "must look like KIND:OPTION=VALUE"),
        ("top-k:k=1:size=3", "compressor.size: 'top-k' has no such option"),
    ],
)
def test_a_compressor_that_there_is_not(network: Network, specs: str, problem: str) -> None:
    with pytest.raises(NetworkError, match=problem) as caught:
        contenders(network, specs)
    assert "\n" not in str(caught.value)


def test_a_network_that_sends_everything_has_nothing_to_compare() -> None:
    plain = load_network("quadratic", ["compressor.kind=identity"])
    with pytest.raises(NetworkError, match="leaves nothing to compare"):
        contenders(plain, None)


def test_the_uncompressed_network_gets_the_setting_that_needs_fewest_rounds(
    network: Network,
) -> None:
    objectives = build_objectives(network, {})
    plain = contenders(network, None)[UNCOMPRESSED]
    rounds = rounds_to(tune_step_sizes(plain, objectives, 1e-3, seed=1), objectives)
    assert rounds is not None
    for gamma, step in product(GAMMAS, ALPHA_FACTORS[::2]):
        settings = {
            **plain.algorithm.model_dump(),
            "alpha": plain.algorithm.alpha * step,
            "gamma": gamma,
        }
        needed = rounds_to(
            parse_network({**plain.model_dump(exclude_none=True), "algorithm": settings}),
            objectives,
        )
        assert needed is None or needed >= rounds


def rounds_to(network: Network, objectives: list[Objective]) -> int | None:
    """To a thousandth of the first distance from the optimum."""
    x = run(network, objectives, seed=1, rounds=200).x
    distance = np.linalg.norm(x - solve(objectives), axis=(1, 2))
    reached = np.flatnonzero(distance <= 1e-3 * distance[0])
    return int(reached[0]) if len(reached) else None


def test_no_step_size_is_good_enough_for_one_round(network: Network) -> None:
    plain = contenders(network, None)[UNCOMPRESSED].model_copy(update={"rounds": 1})
    with pytest.raises(NetworkError, match="allow more --rounds"):
        tune_step_sizes(plain, build_objectives(network, {}), 1e-6, seed=1)


# --- the verdicts ---------------------------------------------------------------------------------


def measured(label: str, rounds: int | None, size: float) -> Measured:
    sizes: dict[str, float | None] = dict.fromkeys(ALL_LAYERS, size)
    total: dict[str, float | None] = dict.fromkeys(
        ALL_LAYERS, None if rounds is None else size * rounds
    )
    return Measured(
        label, 0.1, 0.5, np.geomspace(1, 1e-7, 101), rounds, sizes, total, np.arange(101.0), []
    )


def findings(*rows: Measured, break_even: tuple[RoundSizes, ...] = ()) -> Findings:
    return Findings(1e-6, 10, rows, tuned=False, break_even=break_even)


def test_a_compressor_that_pays() -> None:
    found = findings(measured("top-k:k=1", 100, 10.0), measured(UNCOMPRESSED, 50, 80.0))
    assert saving(found.measured[0], found.plain, "per_round", "tcp") == 8.0
    assert sentences(found) == [
        "top-k:k=1 pays: to 1e-06, 4.0 times fewer bytes through TCP, 4.0 times fewer with headers"
    ]


def test_the_verdict_is_against_the_best_uncompressed_algorithm() -> None:
    rows = measured("top-k:k=1", 100, 10.0), measured(UNCOMPRESSED, 50, 80.0)
    found = replace(findings(*rows), extra=measured(EXTRA, 50, 30.0))
    assert sentences(found) == [
        "top-k:k=1 pays: to 1e-06, 1.5 times fewer bytes through TCP, 1.5 times fewer with "
        "headers, than uncompressed EXTRA"
    ]
    found = replace(found, extra=measured(EXTRA, 50, 10.0))
    assert "2.00 times the bytes of uncompressed EXTRA through TCP" in sentences(found)[0]
    written = findings_as_dict(found)
    assert written["best_uncompressed"] == EXTRA
    assert written["networks"][0]["saving_to_target"]["tcp"] == 4.0
    assert written["networks"][0]["saving_against_best"]["tcp"] == 0.5
    # one that does not reach the target is no baseline
    assert replace(found, extra=measured(EXTRA, None, 1.0)).best is found.plain


def test_the_rival_sends_one_vector_and_has_no_noise(network: Network) -> None:
    other = rival(network)
    assert other is not None
    assert (other.algorithm.kind, other.compressor.kind) == ("extra", "identity")
    assert other.synthetic == network.synthetic
    objectives = build_objectives(other, {})
    assert rounds_to(tune_step_sizes(other, objectives, 1e-3, seed=1), objectives) is not None
    assert rival(load_network("paper")) is None
    assert rival(load_network("logistic")) is None


def test_a_compressor_that_does_not_pay_and_from_where_on_it_would() -> None:
    rows = measured("top-k:k=1", 100, 50.0), measured(UNCOMPRESSED, 50, 80.0)
    found = findings(*rows, break_even=(RoundSizes(20, 60.0, 110.0), RoundSizes(40, 70.0, 170.0)))
    first, second = sentences(found)
    assert first == (
        "top-k:k=1 does not pay at d = 10: to 1e-06, 1.25 times the bytes of the uncompressed "
        "network through TCP, 1.25 times with headers"
    )
    assert second == (
        "top-k:k=1 would pay from about d = 40 against the same algorithm uncompressed, "
        "if it needs 2.00 times the rounds there, as at d = 10 "
        "(measured at d = 20, 40, on synthetic quadratics)"
    )


def test_fewer_headers_alone_do_not_pay() -> None:
    """How many segments the kernel makes of the same bytes is partly chance."""
    ours, plain = measured("top-k:k=10", 50, 81.0), measured(UNCOMPRESSED, 50, 80.0)
    plain.to_target["link"] = 1.03 * 50 * 81.0
    assert "does not pay at d = 10" in sentences(findings(ours, plain))[0]


def test_a_compressor_that_never_pays() -> None:
    rows = measured("top-k:k=1", 100, 50.0), measured(UNCOMPRESSED, 50, 80.0)
    assert (
        "would not pay up to d = 20"
        in sentences(findings(*rows, break_even=(RoundSizes(20, 60.0, 110.0),)))[-1]
    )


def test_no_verdict_without_arrival() -> None:
    found = findings(measured("sign", None, 10.0), measured(UNCOMPRESSED, 50, 80.0))
    assert sentences(found) == [
        "sign: no verdict, because sign did not reach 1e-06; give more --rounds"
    ]
