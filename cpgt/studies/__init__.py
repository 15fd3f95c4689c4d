"""Experiments: bandwidth, comparison of algorithms, the paper's figures. None is private."""

NOT_PRIVATE = "every run is seeded and observed, on synthetic data"
