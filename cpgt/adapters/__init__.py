"""Models of JAX and PyTorch as objectives, for a factory of your own:

    from cpgt.adapters import jax_objective

    def make(data, hidden=16):
        return jax_objective(loss, initial_parameters(hidden), data, target="labels", scale=1 / 240)

x is what is added to the initial parameters, in one vector. So x = 0 is the initial point, which is
public, and the same for all agents: they must build the same one. A network of several layers could
not start at parameters of 0, where its gradient is 0.

| parameter  | meaning                                                                        |
|------------|--------------------------------------------------------------------------------|
| data       | the arrays that the factory was given, a row for each record                   |
| features   | name of the array whose rows the model takes                                   |
| target     | name of the array whose rows the loss takes besides                            |
| scale, l2  | f(x) = scale * sum_r loss_r(x) + l2 / 2 |x|^2, numbers that are public         |

Such an objective works with all algorithms, and with the gradient mechanism (docs/extending.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cpgt.agent.objectives import Data, RecordObjective

if TYPE_CHECKING:
    import torch

__all__ = ["jax_objective", "torch_objective"]


def jax_objective(
    loss: Callable[[Any, Any, Any], Any],
    initial: Any,
    data: Data,
    *,
    features: str = "A",
    target: str = "labels",
    scale: float = 1.0,
    l2: float = 0.0,
) -> RecordObjective:
    """The sum of `loss(parameters, features, target)`, a number, over the records.

    `initial` are the initial parameters, arrays in any nesting that JAX knows. All is computed in
    their type: float32, unless JAX is set to 64 bits."""
    from cpgt.adapters.with_jax import JaxObjective

    return JaxObjective(loss, initial, data, features, target, scale, l2)


def torch_objective(
    build: Callable[[], torch.nn.Module],
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    data: Data,
    *,
    features: str = "A",
    target: str = "labels",
    scale: float = 1.0,
    l2: float = 0.0,
    seed: int = 0,
) -> RecordObjective:
    """The sum of `loss(output, target)` over the records, each a batch of one.

    `build` makes the module: its class, or a function. It is called with the seed, so that every
    agent gets the same initial parameters. The module is in evaluation mode: no dropout."""
    from cpgt.adapters.with_torch import TorchObjective

    return TorchObjective(build, loss, data, features, target, scale, l2, seed)
