"""What a run inside one process returns, for people at a notebook and for programs."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cpgt.wire.arrays import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The states of all agents over K rounds, and the bytes they sent. The states are private."""

    rounds: int  # K
    x: Floats  # (K + 1, n, d)
    y: Floats  # (K + 1, n, d), or (K + 1, n, 0) for an algorithm without y
    eta_y: Floats  # (K, n, d), or (K, n, 0)
    references: Floats  # (n, d): x^c after the last round, public
    edges: list[tuple[int, int]]  # directed
    bytes: dict[str, NDArray[np.int64]]  # layer -> (K, number of directed edges)
    name: str  # of the network
    epsilon: dict[int, float | None]  # agent -> what the run has spent; None without an account

    @property
    def agents(self) -> int:
        return len(self.references)

    @property
    def dimension(self) -> int:
        return len(self.references[0])

    @property
    def disagreement(self) -> Floats:
        """(K + 1,): the distance of all x from their mean."""
        apart: Floats = np.linalg.norm(self.x - self.x.mean(axis=1, keepdims=True), axis=(1, 2))
        return apart

    @property
    def steps(self) -> Floats:
        """(K,): how far x moved in each round, all agents together."""
        moved: Floats = np.linalg.norm(np.diff(self.x, axis=0), axis=(1, 2))
        return moved

    def summary(self) -> dict[str, Any]:
        """The result in a few numbers. Bytes are those of all edges and rounds, by layer."""
        known = [spent for spent in self.epsilon.values() if spent is not None]
        return {
            "network": self.name,
            "agents": self.agents,
            "dimension": self.dimension,
            "rounds": self.rounds,
            "last step": float(self.steps[-1]) if len(self.x) > 1 else None,  # without history
            "disagreement": float(self.disagreement[-1]),
            "highest epsilon": max(known, default=None),
            **{f"bytes, {layer}": int(sizes.sum()) for layer, sizes in self.bytes.items()},
        }

    def to_pandas(self) -> Any:
        """A DataFrame with a row for each round: steps, disagreement, and the bytes of each layer
        on all edges."""
        try:
            import pandas
        except ModuleNotFoundError:
            reason = "to_pandas() needs pandas: pip install 'cpgt[notebook]'"
            raise ModuleNotFoundError(reason, name="pandas") from None
        columns = {"step": self.steps, "disagreement": self.disagreement[1:]}
        columns |= {layer: sizes.sum(axis=1) for layer, sizes in self.bytes.items()}
        return pandas.DataFrame(columns, index=pandas.RangeIndex(1, self.rounds + 1, name="round"))

    def plot(self) -> Figure:
        """Steps and disagreement against rounds and bytes. A notebook shows what this returns."""
        from cpgt.results.notebook import plot_progress

        sent = {layer: np.cumsum(sizes.sum(axis=1)) for layer, sizes in self.bytes.items()}
        return plot_progress(self.name, self.steps, self.disagreement[1:], sent)

    def __repr__(self) -> str:
        size = f"{self.agents} agents, d = {self.dimension}, {self.rounds:,} rounds"
        return f"<Result of {self.name}: {size}, disagreement {self.disagreement[-1]:.3g}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(key)}</th><td>{escape(_shown(value))}</td></tr>"
            for key, value in self.summary().items()
        )
        return f"<table>{rows}</table>"


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) else "-" if value is None else str(value)
