"""Benchmarks. Results are ratios within one run, because machines are shared and noisy."""
