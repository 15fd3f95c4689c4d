"""Experiments: bandwidth, comparison of algorithms, the paper's figures. None is private."""

from pathlib import Path
from typing import NamedTuple

NOT_PRIVATE = "every run is seeded and observed, on synthetic data"


class StudySettings(NamedTuple):
    """The same for all networks that are compared."""

    target: float  # relative residual to reach
    seed: int
    tune: bool
    search: Path  # folder of the user's own code
