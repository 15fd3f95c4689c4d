"""The audit finds what is broken, does not cry wolf, and its bound holds."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from click.testing import CliRunner

from cpgt.agent.errors import InputError
from cpgt.agent.objectives import Objective
from cpgt.agent.objectives.regression import LeastSquares
from cpgt.agent.participant import Participant
from cpgt.agent.privacy.noise import LaplaceNoise
from cpgt.agent.privacy.randomness import Randomness, RoundSampler, seeded_secret
from cpgt.commands.main import main
from cpgt.configuration.data import build_objectives, find_data
from cpgt.configuration.loading import load_network, parse_network
from cpgt.configuration.network import Network
from cpgt.theory.adjacency import AdjacencyClaims
from cpgt.theory.auditing.audit import Audit, AuditSettings, run_audit
from cpgt.theory.auditing.bound import Statistic, lower_bound
from cpgt.theory.auditing.pair import divergence, function_pair, record_pair
from cpgt.theory.auditing.wiretap import Maker, eavesdrop

TRIALS = 300
NOISE_ON_STATES = [
    "privacy.mechanism=state",
    "privacy.sensitivity=0.25",
    "privacy.magnitude=100",
    "algorithm.kind=cpgt",
    "objective.scale=0.02",
    "synthetic.rows=50",
]


def small(
    rounds: int = 3, agents: int = 2, dimension: int = 1, **noise: float
) -> tuple[Network, list[Objective]]:
    """Agents on a path, each with f = |x|^2 / 2: the case in which the bound is attained."""
    tables: dict[str, Any] = {
        "rounds": rounds,
        "algorithm": {"alpha": 0.05},
        "graph": {"kind": "path", "agents": agents},
        "noise": {"s_x": 1.0, "s_y": 1.0, "q": 0.6, **noise},
        "objective": {"kind": "idle", "dimension": dimension},
    }
    one = LeastSquares(np.eye(dimension), np.zeros(dimension), 0.5)
    return parse_network(tables), [one] * agents


def attacked(
    network: Network, objectives: list[Objective], make: Maker = Participant, trials: int = TRIALS
) -> Audit:
    return run_audit(network, objectives, AdjacencyClaims(), AuditSettings(trials=trials), make)


# --- sound where it is not broken -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("paper-diadsp", []),
        ("paper-c2-1", []),
        ("paper-c1", []),
        ("paper-c2-1", ["graph.kind=path", "graph.agents=2", "compressor.bits=6"]),
        ("paper-c1", ["graph.kind=star", "graph.agents=3", "compressor.k=9"]),
    ],
)
def test_the_sound_epsilon_is_not_exceeded(name: str, overrides: list[str]) -> None:
    scales = ["noise.s_x=1", "noise.s_y=1", "noise.q=0.8", "rounds=2"]
    network = load_network(name, [*overrides, *scales])
    objectives = build_objectives(network, {})
    found = run_audit(
        network, objectives, AdjacencyClaims(sensitivity=0.5), AuditSettings(trials=60)
    )
    assert found.exact is not None
    assert found.bound.value <= found.exact <= found.claimed.sound
    assert not found.violated
    if name == "paper-diadsp":  # x^a, y^a are on the wire: no run loses more than the pair can
        assert found.largest_seen is not None and found.largest_seen <= found.exact + 1e-9
    else:
        assert found.largest_seen is None


def test_one_record_changed() -> None:
    network = load_network(
        "paper-diadsp", ["noise.s_x=1", "noise.s_y=1", "noise.q=0.8", "rounds=3"]
    )
    objectives = build_objectives(network, {})
    found = run_audit(
        network,
        objectives,
        AdjacencyClaims(sensitivity=0.5, adjacency="record", smoothness=2.0),
        AuditSettings(trials=60, agent=3),
    )
    assert found.agent == 3 and found.exact is not None
    assert found.bound.value <= found.exact < found.claimed.sound


@pytest.mark.parametrize("kind", ["logistic", "softmax"])
def test_one_record_with_a_label_replaced(kind: str) -> None:
    """The other row is within sensitivity everywhere, not only at 0, and within the claimed L."""
    noise = ["noise.s_x=1", "noise.s_y=1", "noise.q=0.8", "rounds=3", "compressor.kind=identity"]
    network = load_network(kind, [*NOISE_ON_STATES, *noise])
    objectives, rng = build_objectives(network, {}), np.random.default_rng(1)
    claims = AdjacencyClaims(sensitivity=0.25, adjacency="record", smoothness=3.0)
    found = run_audit(network, objectives, claims, AuditSettings(trials=60, agent=3))
    assert found.largest_seen is not None
    assert found.bound.value <= found.largest_seen < found.claimed.sound < math.inf
    pair = record_pair(network, find_data(network, 3, {}), 0.25, 3.0, rng)
    points = rng.normal(scale=9.0, size=(500, 30))[:, : pair.first.dimension]
    gaps = [pair.second.gradient(x) - pair.first.gradient(x) for x in points]
    lengths = np.linalg.norm(gaps, axis=1)
    assert 0.1 < lengths.max() <= 0.25
    assert lengths.min() < 0.9 * lengths.max(), (
        "not the same everywhere: function adjacency would not do"
    )


def test_a_record_that_cannot_be_changed_so_little() -> None:
    network = load_network("logistic", [*NOISE_ON_STATES, "rounds=2"])
    with pytest.raises(InputError, match="no record can be changed"):
        run_audit(
            network,
            build_objectives(network, {}),
            AdjacencyClaims(sensitivity=1e-6, adjacency="record", smoothness=3.0),
        )


# --- finds what there is to find ------------------------------------------------------------------


def test_the_example_in_which_the_papers_epsilon_does_not_hold() -> None:
    """L 1, alpha 0.05, q 0.6, s = sensitivity = 1: exact 1.3929, paper 1.35."""
    network, objectives = small(rounds=20)
    found = attacked(network, objectives, trials=60)
    assert found.exact == pytest.approx(1.3929, abs=5e-5)
    assert found.claimed.paper == pytest.approx(1.35, abs=5e-5)
    assert found.claimed.sound == pytest.approx(1.3929, abs=5e-5)
    assert found.paper_exceeded and not found.violated
    assert found.largest_seen is not None and found.largest_seen <= 1.39291


def test_without_noise_everything_is_found() -> None:
    network, objectives = small(agents=1, s_x=0.0, s_y=0.0)
    found = attacked(network, objectives)
    every, none = TRIALS // 2, 0
    assert found.bound.likelier == (every, every) and found.bound.rarer == (none, every)
    assert found.bound.value > 3 and found.claimed.sound == math.inf and not found.violated


class HalfScale(Participant):
    """Half the noise that is announced."""

    def __init__(
        self, agent: int, weights: Mapping[int, float], algorithm: Any, *rest: Any
    ) -> None:
        halved = replace(
            algorithm.noise, scales=tuple(scale / 2 for scale in algorithm.noise.scales)
        )
        super().__init__(agent, weights, replace(algorithm, noise=halved), *rest)


class FreshNoise(Participant):
    """Draws new noise when it sends a round again."""

    numbers = itertools.count(-1, -1)  # seeds that no honest run has

    def send_again(self) -> list[bytes]:
        kept = self.core, self._sent.copy()
        core: Any = copy(self.core)
        core._randomness = Randomness(seeded_secret(next(self.numbers), self.agent))
        self.core = core
        frame = self.send()
        self.core, self._sent = kept
        return [frame]


class Repeating(Randomness):
    """One draw for two rounds."""

    def draw(self, round_: int, shape: tuple[int, ...], drawer: RoundSampler) -> tuple[Any, ...]:
        (noise, dither), (own, _) = (
            super().draw(round_ // 2 * 2, shape, drawer),
            super().draw(round_, shape, drawer),
        )
        return noise._replace(step=own.step), dither


class OneDrawForTwo(Participant):
    def send(self) -> bytes:
        core: Any = self.core
        core._randomness.__class__ = Repeating
        return super().send()


@pytest.mark.parametrize("make", [HalfScale, FreshNoise])
def test_broken_noise_is_found(make: Maker) -> None:
    """One round: claimed 1, really 2. 600 judged runs make a bound of 1.2 to 1.7."""
    network, objectives = small(rounds=1, agents=1)
    broken = attacked(network, objectives, make, trials=1200)
    assert broken.claimed.sound == pytest.approx(1.0)
    assert broken.violated and broken.bound.value > 1.1


def test_a_repeated_draw_gives_everything_away() -> None:
    network, objectives = small(rounds=2, agents=1)
    found = attacked(network, objectives, OneDrawForTwo)
    assert found.bound.event.statistic == "repeats" and found.violated and found.bound.value > 3


def test_the_same_without_anything_broken() -> None:
    network, objectives = small(rounds=2, agents=1)
    assert not attacked(network, objectives, trials=600).violated


def test_what_is_sent_again_are_the_same_bytes() -> None:
    network, objectives = small(rounds=4, agents=3, dimension=2)
    transcript = eavesdrop(network, objectives, 5, seed=1)
    assert transcript.first.shape == (5, 3, 4, 2, 2) and np.array_equal(
        transcript.first, transcript.last
    )


# --- the pair -------------------------------------------------------------------------------------


def test_the_worst_direction_is_no_worse_than_any_that_is_tried() -> None:
    rng = np.random.default_rng(1)
    f = LeastSquares(rng.normal(size=(4, 5)), np.zeros(4), 0.3)
    known = divergence(f, 0.1, LaplaceNoise((1.0, 2.0), 0.9).scales_of(np.arange(12)))
    assert known is not None
    pair = function_pair(f, known, 2.0, rng)
    assert np.linalg.norm(pair.v) == pytest.approx(2.0)
    tried = rng.normal(size=(500, 5))
    assert all(known.loss(2.0 * v / np.linalg.norm(v)) <= known.loss(pair.v) for v in tried)


# --- the bound ------------------------------------------------------------------------------------


def test_the_bound_is_clopper_and_pearsons() -> None:
    """Two sure statistics: the event is seen always, or never, in 50 judged runs each."""
    low, high = Statistic("s", np.zeros(100)), Statistic("s", np.ones(100))
    bound = lower_bound([low], [high], 0.95)
    least = scipy.stats.binomtest(50, 50).proportion_ci(0.95, "exact").low
    most = scipy.stats.binomtest(0, 50).proportion_ci(0.95, "exact").high
    assert bound.value == pytest.approx(math.log(least / most))


def test_the_bound_holds_as_often_as_it_says() -> None:
    """Randomised response with a known epsilon and many useless statistics to be misled by."""
    rng = np.random.default_rng(4)
    epsilon, wrong = 1.0, 0
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    for _ in range(100):
        said = [rng.random(200) < p for p in (1 - truth, truth)]
        first, second = (
            [
                Statistic("answer", s.astype(float)),
                *(Statistic(str(i), rng.random(200)) for i in range(4)),
            ]
            for s in said
        )
        wrong += lower_bound(first, second, 0.9).value > epsilon
    assert wrong <= scipy.stats.binom.ppf(1 - 1e-5, 100, 0.1)  # at most 0.1 each time


def test_nothing_to_find_gives_nothing() -> None:
    rng = np.random.default_rng(5)
    first, second = ([Statistic(str(i), rng.random(200)) for i in range(20)] for _ in range(2))
    assert lower_bound(first, second, 0.99).value < 0.2


# --- the command ----------------------------------------------------------------------------------


def test_the_command_is_repeatable_and_tells_by_its_exit_code(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(small()[0].to_toml())
    arguments = ["audit", str(file), "--trials", "50", "--rounds", "3", "--seed", "3"]
    results = [
        CliRunner().invoke(main, [*arguments, "--out", str(tmp_path / name)]) for name in "ab"
    ]
    assert [result.exit_code for result in results] == [0, 0], results[0].output
    stored = [json.loads((tmp_path / name / "audit.json").read_text()) for name in "ab"]
    assert stored[0] == stored[1]
    assert (
        stored[0]["claimed"]["sound"] == pytest.approx(1 + 0.05 / 0.6)
        and stored[0]["paper_exceeded"]
    )


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ("--agent 9", "agents 1..6"),
        ("--adjacency record", "--smoothness"),
        ("--smoothness 0.1", "claim a larger one"),
        (
            "--adjacency record --smoothness 1 --set objective.kind=idle "
            "--set objective.dimension=10",
            "no record can be changed",
        ),
    ],
)
def test_mistakes_are_one_line(arguments: str, word: str) -> None:
    result = CliRunner().invoke(
        main, ["audit", "paper", *arguments.split(), "--trials", "20", "--rounds", "2"]
    )
    assert result.exit_code == 2 and word in result.output and len(result.output.splitlines()) == 1
