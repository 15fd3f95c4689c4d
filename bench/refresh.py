"""A refresh of the gradient mechanism, next to a plain gradient: python -m bench.refresh

A refresh clips the gradient of each record and sums in whole numbers, without matrix products over
records. Both are measured in turns, in CPU time of all threads, so that other processes affect both
alike. Run it with OPENBLAS_NUM_THREADS=1, as `make bench` does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from cpgt.agent.objectives import require_records
from cpgt.agent.objectives.registry import build_objective
from cpgt.agent.privacy.clipping import clipped_sum

RECORDS, FEATURES = 100_000, 30
REPEATS = 30
CLIP = 0.5
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "logistic": ("labels", {"l2": 1e-3}),
    "least-squares": ("b", {}),
    "huber": ("b", {}),
    "softmax": ("labels", {"classes": 3, "l2": 1e-3}),
}


def measure(kind: str) -> tuple[float, float]:
    """Seconds of a gradient and of a refresh: the fastest, as other processes only slow them."""
    target, options = KINDS[kind]
    rng = np.random.default_rng(1)
    data = {"A": rng.standard_normal((RECORDS, FEATURES)), target: rng.integers(0, 2, RECORDS)}
    objective = require_records(build_objective(kind, options, data))
    x = rng.standard_normal(objective.dimension)
    calls = (lambda: objective.gradient(x), lambda: clipped_sum(objective, x, CLIP))
    turns = [[seconds(call) for call in calls] for _ in range(REPEATS)]
    plain, refresh = (min(times) for times in zip(*turns, strict=True))
    return plain, refresh


def seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def main() -> None:
    print(f"{RECORDS:,} records, {FEATURES} features, fastest of {REPEATS}")
    for kind in KINDS:
        plain, refresh = measure(kind)
        times = f"gradient {1e3 * plain:6.2f} ms   refresh {1e3 * refresh:6.2f} ms"
        print(f"  {kind:13}  {times}   ratio {refresh / plain:.2f}")


if __name__ == "__main__":
    main()
