"""The code of docs/extending.md works as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import cpgt
from cpgt import extensions

PAGE = Path(__file__).parents[1] / "docs" / "extending.md"
KINDS = ["page:cost", "page:Ternary", "page:wheel", "page:slow"]


def test_the_objective_compressor_graph_and_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "page.py").write_text("\n".join(blocks[:3]))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(extensions, "_allowed", set(KINDS))
    monkeypatch.delitem(sys.modules, "page", raising=False)
    for agent in range(1, 6):
        np.savez(tmp_path / f"{agent}.npz", centre=np.full(3, float(agent)))
    tables = {
        "rounds": 400,
        "data": str(tmp_path / "{id}.npz"),
        "algorithm": {"alpha": 0.1, "gamma": 0.3},
        "graph": {"kind": "page:wheel", "spokes": 4},
        "weights": {"kind": "page:slow", "edge": 0.2},
        "compressor": {"kind": "page:Ternary", "threshold": 0.6},
        "objective": {"kind": "page:cost"},
    }
    result = cpgt.run(cpgt.parse_network(tables), seed=1)
    np.testing.assert_allclose(result.x[-1], 3.0, atol=1e-3)
    assert sum(result.bytes["payload"][-1]) < 16 * 2 * 3 * 8
