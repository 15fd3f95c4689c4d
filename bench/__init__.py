"""Benchmarks: figures are ratios inside one run, because machines are shared and noisy."""
