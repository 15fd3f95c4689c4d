"""Gradients of each record by JAX and, where it is installed, PyTorch: one after the other, as the
gradient mechanism needs them, against a batch by vmap, whose rows depend on their batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

RECORDS, FEATURES, CLASSES = 1024, 64, 10
REPEATS = 5


class Timing(NamedTuple):
    library: str
    hidden: int
    dimension: int
    each: float  # microseconds a record
    batch: float


def microseconds(call: Callable[[], Any]) -> float:
    """CPU time of the fastest of some calls, for one record."""
    call()
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times) / RECORDS * 1e6


def data() -> dict[str, Any]:
    draw = np.random.default_rng(1)
    labels = draw.integers(0, CLASSES, RECORDS).astype(np.float64)
    return {"A": draw.random((RECORDS, FEATURES)), "labels": labels}


def with_jax(hidden: int) -> Timing:
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    from cpgt.adapters import jax_objective

    def loss(parameters: Any, features: Any, label: Any) -> Any:
        scores = jnp.tanh(features @ parameters[0]) @ parameters[1]
        return jax.nn.logsumexp(scores) - scores[label.astype(int)]

    initial = jnp.ones((FEATURES, hidden)) / 64, jnp.ones((hidden, CLASSES))
    arrays = data()
    objective = jax_objective(loss, initial, arrays)
    x, (flat, unflatten) = np.zeros(objective.dimension), ravel_pytree(initial)
    batch = jax.jit(
        jax.vmap(jax.grad(lambda x, a, b: loss(unflatten(flat + x), a, b)), (None, 0, 0))
    )
    typed = [jnp.asarray(array, jnp.float32) for array in (x, *arrays.values())]
    each = microseconds(lambda: list(objective.record_gradients(x)))
    return Timing("JAX", hidden, len(x), each, microseconds(lambda: np.array(batch(*typed), float)))


def with_torch(hidden: int) -> Timing:
    import torch
    from torch.func import functional_call, grad, vmap

    from cpgt.adapters import torch_objective

    def build() -> Any:
        layers = (
            torch.nn.Linear(FEATURES, hidden),
            torch.nn.Tanh(),
            torch.nn.Linear(hidden, CLASSES),
        )
        return torch.nn.Sequential(*layers)

    def loss(output: Any, labels: Any) -> Any:
        return torch.nn.functional.cross_entropy(output, labels.long())

    def of_one(parameters: Any, features: Any, label: Any) -> Any:
        return loss(functional_call(module, parameters, (features[None],)), label[None])

    arrays, module = data(), build()
    objective = torch_objective(build, loss, arrays)
    x, parameters = np.zeros(objective.dimension), dict(module.named_parameters())
    typed = [torch.tensor(array, dtype=torch.float32) for array in arrays.values()]
    batch = vmap(grad(of_one), (None, 0, 0))
    each = microseconds(lambda: list(objective.record_gradients(x)))
    return Timing("PyTorch", hidden, len(x), each, microseconds(lambda: batch(parameters, *typed)))


def timings() -> Iterator[Timing]:
    for library, measure in {"jax": with_jax, "torch": with_torch}.items():
        if find_spec(library):
            yield from (measure(hidden) for hidden in (32, 256))


def main() -> None:
    print(f"Gradients of each of {RECORDS} records, {FEATURES} features, one hidden layer")
    for library, hidden, dimension, each, batch in timings():
        ratio = each / batch
        print(
            f"  {library:8} {hidden:4} units, d = {dimension:6,}: {each:6.1f} us a record, "
            f"vmap {batch:6.1f} us, ratio {ratio:.1f}"
        )


if __name__ == "__main__":
    main()
