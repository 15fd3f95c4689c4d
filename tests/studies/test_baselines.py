"""Each party alone and all records in one place, on the tables of the shipped hospitals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from cpgt.configuration.loading import load_network
from cpgt.configuration.network import Network
from cpgt.studies.baselines import fit_baselines
from cpgt.tables.encode import Encoded, encode_table
from tests.commands.test_main import call


@pytest.fixture(scope="module")
def network() -> Network:
    return load_network("hospitals")


@pytest.fixture(scope="module")
def folder(network: Network) -> Path:
    return Path(network.data or "").parent


@pytest.fixture(scope="module")
def held_out(network: Network, folder: Path) -> Encoded:
    assert network.table_schema
    return encode_table(network.table_schema, folder / "held-out.csv")


def test_without_privacy_they_are_those_of_scikit_learn(
    network: Network, folder: Path, held_out: Encoded
) -> None:
    baselines = fit_baselines(network, held_out, seed=1)
    assert [len(models) for models in baselines.values()] == [6, 6, 1]
    assert network.table_schema
    parts = [
        encode_table(network.table_schema, folder / f"hospital-{k}.csv") for k in network.agents
    ]
    pooled = np.concatenate([part.features for part in parts])
    labels = np.concatenate([part.target for part in parts if part.target is not None])
    for models, features, target in (
        (baselines["all pooled, none"], pooled, labels),
        (baselines["each alone, none"][5:], parts[5].features, parts[5].target),
    ):
        assert target is not None
        theirs = LogisticRegression(C=1 / (len(target) * 1e-3), tol=1e-10, max_iter=10_000)
        theirs.fit(features[:, :-1], target)
        right = theirs.score(held_out.features[:, :-1], held_out.target)
        assert models[0].metrics["accuracy"] == pytest.approx(right, abs=1e-12)


def test_together_is_better_than_alone_with_the_same_privacy(
    network: Network, held_out: Encoded
) -> None:
    alone = fit_baselines(network, held_out, seed=2)["each alone, the same"]
    accuracies = [model.metrics["accuracy"] or 0.0 for model in alone]
    assert np.mean(accuracies) < 0.92


def test_without_privacy_nothing_is_the_same(network: Network, held_out: Encoded) -> None:
    open_ = network.model_copy(update={"privacy": type(network.privacy)()})
    assert list(fit_baselines(open_, held_out)) == ["each alone, none", "all pooled, none"]


def test_baselines_need_held_out() -> None:
    done = call("run", "hospitals", "--baselines")
    assert done.exit_code == 2
    assert "--baselines are compared on test records: give --test, too" in done.output
