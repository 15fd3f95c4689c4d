"""A study from CSV files, as processes: it ends by itself, and gives scikit-learn's model."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegression

from tests.parties import L2, breast_cancer
from tests.system.conftest import Commands, summary_of


def test_six_parties_with_csv_files_get_the_model_of_scikit_learn(cpgt: Commands) -> None:
    table = breast_cancer()
    table.write(cpgt.folder)
    network = table.study(cpgt.folder)
    (cpgt.folder / "network.toml").write_text(network.to_toml())
    done = cpgt.run("run", "network.toml", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "not converged" not in done.stdout
    summary = summary_of(cpgt.folder / "run")
    assert summary["rounds"] < network.rounds
    model = LogisticRegression(
        C=1 / (len(table.target) * L2), tol=1e-12, solver="newton-cholesky", max_iter=1000
    ).fit(table.encoded, table.target)
    wanted = np.append(model.coef_[0], model.intercept_)
    np.testing.assert_allclose(summary["residual"]["public_result"], wanted, rtol=0, atol=1e-6)


def test_a_study_that_is_cut_short_says_so(cpgt: Commands) -> None:
    table = breast_cancer()
    table.write(cpgt.folder)
    (cpgt.folder / "network.toml").write_text(table.study(cpgt.folder).to_toml())
    done = cpgt.run("run", "network.toml", "--rounds", "60", "--out", "run")
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("not converged: "))
    assert line.endswith("; raise rounds or algorithm.every")
    assert summary_of(cpgt.folder / "run")["not_converged"] == line
