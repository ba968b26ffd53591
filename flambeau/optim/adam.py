"""Adam: steps scaled by running averages of the gradient and of its square."""

from __future__ import annotations

from typing import Any

from .._kernel.training.optim import Formula
from .._tensor import Tensor
from ._elementwise import Elementwise, check_at_least, check_betas, check_forms, decayed, settings
from .optimizer import ParamsT

__all__ = ["Adam"]


def _numbers(m: Any, scalars: Any, given: Any, options: Any) -> Any:
    (step,), (lr, beta1, beta2, eps, weight_decay) = scalars, given
    step = step + 1
    size = lr / (1 - m.pow(beta1, step))
    correction = 1 / m.sqrt(1 - m.pow(beta2, step))
    decay = 1 - lr * weight_decay if options[1] else weight_decay
    return (step,), (size, 1 - beta1, beta2, 1 - beta2, correction, eps, decay)


def _update(m: Any, p: Any, g: Any, states: Any, numbers: Any, options: Any) -> Any:
    decays, decoupled, amsgrad, maximize = options
    size, weight1, beta2, weight2, correction, eps, decay = numbers
    average, square = states[0], states[1]
    p, g = decayed(p, g, maximize, decays, decay, decoupled)
    average = average + (g - average) * weight1
    square = square * beta2 + g * g * weight2
    largest = m.maximum(states[2], square) if amsgrad else square
    p = p - average * size / (m.sqrt(largest) * correction + eps)
    return p, (average, square, largest) if amsgrad else (average, square)


class Adam(Elementwise):
    """Adam (Kingma and Ba, 2015); `decoupled_weight_decay` makes it AdamW, `amsgrad` keeps the largest second moment.

    >>> import flambeau as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.Adam([p], lr=0.1)
    >>> (p * p).sum().backward(); optimizer.step(); p
    Parameter containing:
    tensor([0.9000], requires_grad=True)
    """

    _formula = Formula("Adam", _numbers, _update)
    _sparse_hint = ", please consider SparseAdam instead"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        defaults = settings(locals())
        if isinstance(lr, Tensor) and foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        check_at_least(lr)
        check_at_least(0.0, epsilon=eps)
        check_betas(betas)
        check_at_least(0.0, weight_decay=weight_decay)
        if isinstance(betas[0], Tensor) != isinstance(betas[1], Tensor):
            raise ValueError("betas must be either both floats or both Tensors")
        for i, beta in enumerate(betas):
            if isinstance(beta, Tensor):
                if foreach and not capturable:
                    raise ValueError(f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True")
                if beta.numel() != 1:
                    raise ValueError(f"Tensor betas[{i}] must be 1-element")
        super().__init__(params, defaults)
        check_forms(foreach, fused, differentiable)

    def _settings(self, group: dict[str, Any]) -> Any:
        (beta1, beta2), weight_decay, amsgrad = group["betas"], group["weight_decay"], group["amsgrad"]
        options = weight_decay != 0, group["decoupled_weight_decay"], amsgrad, group["maximize"]
        names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if amsgrad else ("exp_avg", "exp_avg_sq")
        return options, names, (group["lr"], beta1, beta2, group["eps"], weight_decay)
