"""The cost of exact Gaussian noise, beside numpy's float sampler."""

from __future__ import annotations

from functools import partial

import numpy as np

from bench.codec import seconds
from cpgt.agent.privacy.gaussian import rounded_gaussian
from cpgt.agent.privacy.randomness import Label, Randomness, fresh_secret


def measure_gaussian() -> None:
    print("Exact rounded Gaussian noise, microseconds a draw")
    print("   draws        sigma    exact   numpy, in floats")
    stream = Randomness(fresh_secret())._stream(Label.NOISE, 0, 0)
    rng = np.random.default_rng(1)
    for number in (30, 1_000, 100_000):
        floats = 1e6 / number * seconds(partial(rng.normal, 0.0, 1.0, number))
        for sigma in (7.5, 2.0**26, 2.0**45):
            exact = 1e6 / number * seconds(partial(rounded_gaussian, stream, number, sigma))
            print(f"  {number:6,}  {sigma:11.3g}   {exact:6.2f}   {floats:6.3f}")


if __name__ == "__main__":
    measure_gaussian()
