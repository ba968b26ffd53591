"""The gradient of every sample of a batch, kept beside each parameter (`parameter.grad_sample`)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..._tensor import Tensor
from ...autograd import Function
from ...func import functional_call, vmap
from ...utils._pytree import tree_flatten, tree_unflatten
from ..modules.module import Module


class _Copies(Function):
    """A parameter once for each sample; its gradient is kept and goes no further."""

    @staticmethod
    def forward(ctx: Any, parameter: Tensor, count: int, factor: int) -> Tensor:
        ctx.parameter, ctx.factor = parameter, factor
        return parameter.detach().expand(count, *parameter.shape)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None]:  # type: ignore[override]
        ctx.parameter.grad_sample = gradient if ctx.factor == 1 else gradient * ctx.factor
        return None, None, None


def call_for_per_sample_grads(
    module: Module, *, batch_size: int | None = None, loss_reduction: str = "sum", batch_first: bool = True
) -> Callable[..., Any]:
    """The module as a function whose backward pass leaves `grad_sample` on the parameters, one gradient for each sample.

    >>> import flambeau as torch
    >>> layer = torch.nn.Linear(2, 1)
    >>> call_for_per_sample_grads(layer)(torch.tensor([[1., 2.], [3., 4.]])).sum().backward()
    >>> layer.weight.grad_sample
    tensor([[[1., 2.]],
    <BLANKLINE>
            [[3., 4.]]])
    """
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if batch_size is not None and not isinstance(batch_size, int):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for name, parameter in module.named_parameters():
        if getattr(parameter, "grad_sample", None) is not None:
            raise RuntimeError(
                f"the parameter {name} has per-sample gradients of an earlier call: delete its grad_sample"
            )
    dim = 0 if batch_first else 1

    @functools.wraps(module.forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        if not places and batch_size is None:
            raise RuntimeError(
                "ExpandedWeights cannot compute the batch size from the inputs: there is no tensor among them; give batch_size"
            )
        count = batch_size
        for place in places:
            found = leaves[place].shape[dim]
            if count is not None and found != count:
                raise RuntimeError(
                    "the inputs are no batches of one size: "
                    f"found at least one input with batch size {count} and one with batch size {found}"
                )
            count = found
        assert count is not None
        factor = count if loss_reduction == "mean" else 1
        copies = {name: _Copies.apply(p, count, factor) for name, p in module.named_parameters() if p.requires_grad}

        shape: Any = None

        def one(parameters: dict[str, Tensor], samples: list[Tensor]) -> list[Tensor]:
            nonlocal shape
            filled = list(leaves)
            for place, sample in zip(places, samples):
                filled[place] = sample.unsqueeze(dim)  # a batch of one, for modules that want a batch
            positional, named = tree_unflatten(filled, spec)
            made, shape = tree_flatten(functional_call(module, parameters, positional, named))
            return [m.squeeze(dim) for m in made]

        made = vmap(one, (0, dim), dim, randomness="different")(copies, [leaves[i] for i in places])
        return tree_unflatten(list(made), shape)

    return call
