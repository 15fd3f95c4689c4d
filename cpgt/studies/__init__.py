"""Experiments that compare runs: bandwidth, algorithms, the paper."""
