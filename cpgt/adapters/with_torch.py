"""An objective from a module of PyTorch.

The gradient mechanism needs rows that depend on one record and x alone, to the bit. A batch of
records (vmap) does not give that: its matrix products round a row differently from the record
alone. So records are differentiated one after the other, each copied to memory of its own, because
vectorised code may round by the alignment of its input. docs/extending.md has what that costs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch.func import functional_call, grad, vmap
from torch.nn.modules.batchnorm import _NormBase

from cpgt.adapters.losses import Losses
from cpgt.agent.errors import CodeError
from cpgt.agent.objectives import Data
from cpgt.wire.arrays import Floats

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class TorchObjective(Losses):
    def __init__(
        self, build: Callable[[], torch.nn.Module], loss: Loss, data: Data, features: str,
        target: str, scale: float, l2: float, seed: int,
    ) -> None:  # fmt: skip
        super().__init__(data, features, target, scale, l2)
        self._module, self._loss = _built(build, seed), loss
        self._names, initial = zip(*self._module.named_parameters(), strict=True)
        self._initial = [tensor.detach().clone() for tensor in initial]
        self._sizes = [tensor.numel() for tensor in self._initial]
        self._type = self._initial[0].dtype
        self.dimension = sum(self._sizes)
        self._one_gradient(self._leaves(np.zeros(self.dimension)), *self._record_of_zeros())

    def _parameters(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The initial parameters plus x."""
        parts = zip(self._initial, x.split(self._sizes), strict=True)
        return tuple(initial + part.view_as(initial) for initial, part in parts)

    def _record_loss(
        self, parameters: tuple[torch.Tensor, ...], features: torch.Tensor, target: torch.Tensor
    ) -> torch.Tensor:
        # with copies of the buffers, so that nothing of a record stays in the module
        buffers = {name: tensor.clone() for name, tensor in self._module.named_buffers()}
        tensors = {**buffers, **dict(zip(self._names, parameters, strict=True))}
        output = functional_call(self._module, tensors, (features[None],))
        return self._loss(output, target[None]).reshape(())

    def _sum_gradient(self, x: Floats) -> Floats:
        def total(x: torch.Tensor) -> torch.Tensor:
            each = vmap(self._record_loss, (None, 0, 0))
            return each(self._parameters(x), features, targets).sum()

        features, targets = self._typed(self._features), self._typed(self._targets)
        return _as_floats(grad(total)(self._typed(x)))

    def _each_gradient(
        self,
        x: Floats,
        features: Floats,
        targets: Floats,
        rows: int,  # noqa: ARG002
    ) -> tuple[Floats, Floats]:
        leaves = self._leaves(x)
        losses = np.full(len(features), np.nan)
        gradients = np.empty((len(features), self.dimension))
        for r, record in enumerate(zip(features, targets, strict=True)):
            # A label that does not exist may raise. Others must not see that: it counts as 0.
            with suppress(Exception):
                losses[r], gradients[r] = self._one_gradient(leaves, *record)
        return losses, gradients

    def _leaves(self, x: Floats) -> tuple[torch.Tensor, ...]:
        return tuple(tensor.requires_grad_() for tensor in self._parameters(self._typed(x)))

    def _one_gradient(
        self, leaves: tuple[torch.Tensor, ...], features: Floats, target: Floats
    ) -> tuple[float, Floats]:
        loss = self._record_loss(leaves, self._typed(features), self._typed(target))
        parts = torch.autograd.grad(loss, leaves, materialize_grads=True)
        return float(loss.detach()), _as_floats(torch.cat([part.reshape(-1) for part in parts]))

    def _typed(self, array: Floats) -> torch.Tensor:
        """A copy, in the type of the parameters."""
        return torch.tensor(array, dtype=self._type)


def _as_floats(tensor: torch.Tensor) -> Floats:
    floats: Floats = tensor.detach().numpy().astype(np.float64)
    return floats


def _built(build: Callable[[], torch.nn.Module], seed: int) -> torch.nn.Module:
    if isinstance(build, torch.nn.Module):
        raise CodeError("give a function that builds the module, so that all agents build the same")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module: Any = build()
    if not isinstance(module, torch.nn.Module):
        raise CodeError(f"a torch.nn.Module is needed, not a {type(module).__name__}")
    for name, part in module.named_modules():
        if isinstance(part, _NormBase):
            raise CodeError(
                f"the module's {name or 'outermost layer'} is a {type(part).__name__}, which "
                "mixes records or remembers them; use LayerNorm or GroupNorm"
            )
    if not list(module.parameters()):
        raise CodeError("the module has no parameters")
    return module.eval()
