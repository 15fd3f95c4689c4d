"""The public API: what `import cpgt` offers."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import cpgt
from cpgt import api


def test_the_package_offers_the_api() -> None:
    assert cpgt.__all__ == api.__all__
    for name in api.__all__:
        assert getattr(cpgt, name) is getattr(api, name)
        assert f"| `{name}" in (api.__doc__ or ""), f"{name} is not documented"
    assert "paper" in cpgt.shipped_networks()
    with pytest.raises(AttributeError, match="no attribute 'walk'"):
        _ = cpgt.walk


def test_the_api_is_loaded_when_it_is_used() -> None:
    code = "import sys, cpgt; print(sorted(name for name in sys.modules if 'cpgt' in name))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "cpgt.api" not in done.stdout and "cpgt.agent" not in done.stdout


def test_names_for_the_tab_key() -> None:
    assert dir(cpgt) == sorted([*api.__all__, "__version__"])
    assert cpgt.__version__ == version("cpgt")


@pytest.fixture(scope="module")
def result() -> cpgt.Result:
    return cpgt.run("paper", rounds=40, seed=1)


def test_a_result_in_few_words(result: cpgt.Result) -> None:
    apart = np.linalg.norm(result.x[-1] - result.x[-1].mean(axis=0))
    size = "6 agents, d = 10, 40 rounds"
    assert repr(result) == f"<Result of CPGT-C2-1: {size}, disagreement {apart:.3g}>"
    summary = result.summary()
    assert summary["disagreement"] == pytest.approx(apart)
    assert summary["last step"] == pytest.approx(np.linalg.norm(result.x[-1] - result.x[-2]))
    assert summary["bytes, message"] == result.bytes["message"].sum()
    assert summary["highest epsilon"] == max(spent or 0.0 for spent in result.epsilon.values())
    assert f"<td>{summary['bytes, message']:,}</td>" in result._repr_html_()


def test_epsilon_is_what_processes_report(result: cpgt.Result) -> None:
    path = Path(__file__).parent / "results" / "summary.json"  # 50 rounds of the same network
    reported = json.loads(path.read_text())["privacy"]["agents"]
    for agent, account in reported.items():
        assert result.epsilon[int(agent)] == pytest.approx(account["epsilon"], rel=1e-3)
    free = cpgt.run("quadratic", rounds=2)
    assert set(free.epsilon.values()) == {None}
    assert free.summary()["highest epsilon"] is None
    assert cpgt.run("logistic", rounds=20).epsilon[3] == 3.0


def test_a_name_is_not_html(result: cpgt.Result) -> None:
    hostile = replace(result, name="<script>")
    assert "<script>" not in hostile._repr_html_()
    assert "&lt;script&gt;" in hostile._repr_html_()


def test_a_result_as_a_table(result: cpgt.Result) -> None:
    table = result.to_pandas()
    assert list(table.columns) == ["step", "disagreement", "payload", "message", "zmtp"]
    assert (table.index[0], table.index[-1], table.index.name) == (1, 40, "round")
    assert table["zmtp"].sum() == result.bytes["zmtp"].sum()
    assert table["disagreement"].iloc[-1] == result.disagreement[-1]


def test_a_result_as_a_figure(result: cpgt.Result) -> None:
    figure = result.plot()
    rounds, sizes = figure.axes
    assert rounds.lines[1].get_ydata() == pytest.approx(result.disagreement[1:])
    assert [line.get_label() for line in sizes.lines] == ["payload", "message", "zmtp"]
    assert sizes.lines[2].get_xdata(orig=True)[-1] == result.bytes["zmtp"].sum()  # type: ignore[index]
    svg = figure._repr_svg_()  # type: ignore[attr-defined]
    assert svg.count("<svg") == 1 and "CPGT-C2-1" in svg
