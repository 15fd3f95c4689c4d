"""An objective from a function of JAX.

The gradient mechanism needs rows that depend on one record and x alone, to the bit. A batch of
records (vmap) does not give that: its matrix products round a row differently from the record
alone. So records are taken one after the other by one compiled loop (lax.map), always over the same
number of rows, the last ones padded. The barrier keeps the compiler from joining the work of
neighbouring records. docs/extending.md has what that costs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from cpgt.adapters.losses import Losses
from cpgt.agent.errors import CodeError
from cpgt.agent.objectives import Data
from cpgt.agent.objectives.records import padded
from cpgt.wire.arrays import Floats

Loss = Callable[[Any, Any, Any], Any]


class JaxObjective(Losses):
    def __init__(
        self, loss: Loss, initial: Any, data: Data, features: str, target: str, scale: float,
        l2: float,
    ) -> None:  # fmt: skip
        super().__init__(data, features, target, scale, l2)
        flat, _ = ravel_pytree(initial)
        if not flat.size or not jnp.issubdtype(flat.dtype, jnp.floating):
            raise CodeError(f"initial parameters must be real numbers, not {flat.dtype}")
        self.dimension = int(flat.size)
        self._loss, self._initial, self._type = loss, initial, flat.dtype
        one = self._typed(np.zeros(self.dimension), *self._record_of_zeros())
        jax.eval_shape(jax.grad(partial(_at, loss, initial)), *one)  # computes nothing

    def _sum_gradient(self, x: Floats) -> Floats:
        arrays = self._typed(x, self._features, self._targets)
        return np.asarray(_sum_gradient(self._loss, self._initial, *arrays), np.float64)

    def _each_gradient(
        self, x: Floats, features: Floats, targets: Floats, rows: int
    ) -> tuple[Floats, Floats]:
        full = (padded(array.T, 0, rows).T for array in (features, targets))
        arrays = self._typed(x, *full)
        losses, gradients = _each_gradient(self._loss, self._initial, *arrays)
        number = len(features)
        return np.array(losses[:number], np.float64), np.array(gradients[:number], np.float64)

    def _typed(self, *arrays: Floats) -> list[jax.Array]:
        return [jnp.asarray(array, self._type) for array in arrays]


def _at(loss: Loss, initial: Any, x: jax.Array, features: jax.Array, target: jax.Array) -> Any:
    """The loss of one record, with x added to the initial parameters."""
    flat, unflatten = ravel_pytree(initial)
    return loss(unflatten(flat + x), features, target)


@partial(jax.jit, static_argnums=0)
def _sum_gradient(
    loss: Loss, initial: Any, x: jax.Array, features: jax.Array, targets: jax.Array
) -> Any:
    def total(x: jax.Array) -> Any:
        return jax.vmap(partial(_at, loss, initial, x))(features, targets).sum()

    return jax.grad(total)(x)


@partial(jax.jit, static_argnums=0)
def _each_gradient(
    loss: Loss, initial: Any, x: jax.Array, features: jax.Array, targets: jax.Array
) -> Any:
    differentiate = jax.value_and_grad(partial(_at, loss, initial))
    barrier: Any = jax.lax.optimization_barrier

    def one(record: tuple[jax.Array, jax.Array]) -> Any:
        return barrier(differentiate(x, *barrier(record)))

    return jax.lax.map(one, (features, targets))
